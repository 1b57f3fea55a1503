#pragma once
// Calls a fuzz target with every file of its seed corpus, tests/fuzz/corpus/<name>; returns how many there were.

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "hydrahead/base/files.hpp"

namespace hydra::test {

template <class Target>
int replay_corpus(const std::string& name, Target&& target) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(HYDRA_SOURCE_DIR "/tests/fuzz/corpus/" + name)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const std::string bytes = read_file(file);
    target(std::as_bytes(std::span(bytes)));
  }
  return static_cast<int>(files.size());
}

}  // namespace hydra::test
