#pragma once
// A Hugging Face model directory: config.json, one or several safetensors files with their index, tokenizer and
// generation files. The index decides which files belong; both ways it is checked against the shards' headers.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/io/safetensors.hpp"

namespace hydra::io {

class HfModelDir {
 public:
  // Opens and checks everything but values. UserError: missing or damaged file, index and shards that disagree, two
  // candidate weight sets. Stray files are named in a log line and ignored.
  static HfModelDir open(const std::filesystem::path& dir);

  const std::filesystem::path& path() const { return dir_; }
  const Json& config() const { return config_; }
  const Json& generation_config() const { return generation_config_; }  // null if there is no such file
  std::vector<std::string> names() const;                               // sorted
  bool contains(const std::string& name) const { return where_.count(name) > 0; }
  const TensorInfo& info(const std::string& name) const;
  at::Tensor load(const std::string& name) const;  // CPU, stored type
  // SHA-256 over config.json and every weight file's content, in index order: the `teacher_sha256` of a plan.
  std::string sha256() const;

 private:
  std::filesystem::path dir_;
  Json config_, generation_config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> where_;  // tensor -> file
};

// The weight files of a directory: names of the tensors in the order given, cut where a file would exceed the limit,
// which is lowered so that there are `at_least` files or more (if there are as many tensors).
struct ModelShard {
  std::string file;  // model.safetensors if there is one
  std::vector<std::string> tensors;
  std::uint64_t bytes = 0;
};
std::vector<ModelShard> cut_into_shards(const std::vector<std::pair<std::string, std::uint64_t>>& tensors,
                                        std::uint64_t max_shard_bytes, std::size_t at_least = 1);
void write_shard(const std::filesystem::path& dir, const std::string& file, const NamedTensors& tensors);
void write_shard_index(const std::filesystem::path& dir, const std::vector<ModelShard>& shards);  // none for one shard

// Writes model.safetensors, or shards of at most max_shard_bytes with model.safetensors.index.json, into `dir`.
void write_model_tensors(const std::filesystem::path& dir, const NamedTensors& tensors, std::uint64_t max_shard_bytes);

// Copies tokenizer.json, tokenizer_config.json, generation_config.json and whatever else belongs to them, if present.
void copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace hydra::io
