#pragma once
// Hashes for the tokenizer's open-addressing tables: multiply and fold, eight bytes at a time.

#include <cstdint>
#include <cstring>
#include <string_view>

namespace hydra::text {

inline std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15u;
  a = (a ^ a >> 32) * 0xD6E8FEB86659FD93u;
  return a ^ a >> 29;
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix_hash(hash, word);
    bytes.remove_prefix(8);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix_hash(hash, word);
}

}  // namespace hydra::text
