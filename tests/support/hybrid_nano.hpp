#pragma once
// The reference hybrid of qwen3-nano: its attention tensors and config.json are fixtures of their own, everything else
// is the teacher's. Joined into a checkpoint directory here.

#include <filesystem>
#include <string>

#include "hydrahead/base/files.hpp"
#include "hydrahead/io/hf_model_dir.hpp"
#include "hydrahead/io/safetensors.hpp"

namespace hydra::test {

inline void write_hybrid_nano(const std::filesystem::path& dir) {
  const std::filesystem::path fixtures = HYDRA_FIXTURES;
  const auto attention = io::SafetensorsFile::open(fixtures / "golden/hybrid-nano/attention.safetensors");
  const auto teacher = io::HfModelDir::open(fixtures / "qwen3-nano");
  io::NamedTensors tensors;
  for (const auto& [name, info] : attention.header().tensors) {
    tensors.emplace_back(name, attention.load(name));
  }
  for (const std::string& name : teacher.names()) {
    if (name.find(".self_attn.") == std::string::npos) {
      tensors.emplace_back(name, teacher.load(name));
    }
  }
  std::filesystem::create_directories(dir);
  io::write_model_tensors(dir, tensors, std::uint64_t{1} << 30);
  write_file_atomic(dir / "config.json", read_file(fixtures / "golden/hybrid-nano/config.json"));
}

}  // namespace hydra::test
