#pragma once
// The real Qwen3 tokenizer.json out of its compressed fixture.

#include <lzma.h>

#include <cstdint>
#include <string>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"

namespace hydra::test {

inline std::string unpack_xz(const std::filesystem::path& path) {
  const std::string packed = read_file(path);
  std::string text(std::size_t{32} << 20, '\0');  // more than any fixture
  std::uint64_t memory_limit = std::uint64_t{1} << 30;
  std::size_t in = 0, out = 0;
  const lzma_ret code =
      lzma_stream_buffer_decode(&memory_limit, 0, nullptr, reinterpret_cast<const std::uint8_t*>(packed.data()), &in,
                                packed.size(), reinterpret_cast<std::uint8_t*>(text.data()), &out, text.size());
  HYDRA_CHECK(code == LZMA_OK, path.string(), ": liblzma code ", code);
  text.resize(out);
  return text;
}

inline std::string qwen3_tokenizer_json() {
  return unpack_xz(std::filesystem::path(HYDRA_FIXTURES) / "tokenizer" / "qwen3-tokenizer.json.xz");
}

}  // namespace hydra::test
