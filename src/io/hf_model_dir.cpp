#include "hydrahead/io/hf_model_dir.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::io {
namespace {

constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

std::vector<std::string> safetensors_in(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// model-00001-of-00003.safetensors
bool is_shard_name(const std::string& name) {
  int part = 0, count = 0, end = 0;
  return std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &part, &count, &end) == 2 &&
         end == static_cast<int>(name.size());
}

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

// Both ways: every indexed tensor is in its file, every tensor of a file is indexed there.
void check_index(const WeightMap& index, const std::vector<SafetensorsFile>& files, const fs::path& path) {
  std::map<std::string, const SafetensorsFile*> by_name;
  for (const SafetensorsFile& file : files) {
    by_name[file.path().filename().string()] = &file;
  }
  for (const auto& [tensor, file] : index) {
    HYDRA_REQUIRE(by_name.at(file)->contains(tensor), path.string(), ": names tensor ", tensor, " in ", file,
                  ", which does not hold it");
  }
  for (const auto& [file_name, file] : by_name) {
    for (const auto& [tensor, info] : file->header().tensors) {
      const auto found = index.find(tensor);
      HYDRA_REQUIRE(found != index.end(), file->path().string(), ": holds tensor ", tensor, ", which ",
                    path.filename().string(), " does not name");
      HYDRA_REQUIRE(found->second == file_name, file->path().string(), ": holds tensor ", tensor, ", which ",
                    path.filename().string(), " places in ", found->second);
    }
  }
}

}  // namespace

HfModelDir HfModelDir::open(const std::filesystem::path& dir) {
  HYDRA_REQUIRE(fs::is_directory(dir), dir.string(), ": found no directory, expected a model directory");
  HYDRA_REQUIRE(fs::exists(dir / "config.json"), (dir / "config.json").string(), ": file is missing");
  HfModelDir model;
  model.dir_ = dir;
  model.config_ = read_json_file((dir / "config.json").string());
  if (fs::exists(dir / "generation_config.json")) {
    model.generation_config_ = read_json_file((dir / "generation_config.json").string());
  }

  const fs::path index_path = dir / index_file;
  const std::vector<std::string> present = safetensors_in(dir);
  const bool has_single = fs::exists(dir / single_file);
  std::set<std::string> wanted;
  WeightMap index;
  if (fs::exists(index_path)) {
    index = parse_safetensors_index(read_file(index_path)).value_or_fail(index_path.string());
    for (const auto& [tensor, file] : index) {
      wanted.insert(file);
    }
    HYDRA_REQUIRE(!has_single || wanted.count(single_file) > 0, dir.string(), ": holds two weight sets, ", single_file,
                  " and the shards of ", index_file, "; expected one");
  } else {
    const auto shard = std::find_if(present.begin(), present.end(), is_shard_name);
    HYDRA_REQUIRE(has_single, (dir / single_file).string(), ": file is missing",
                  shard == present.end() ? "" : ", and there is no model.safetensors.index.json for " + *shard);
    HYDRA_REQUIRE(shard == present.end(), dir.string(), ": holds two weight sets, ", single_file, " and ", *shard,
                  "; expected one");
    wanted.insert(single_file);
  }
  for (const std::string& name : present) {
    if (wanted.count(name) == 0) {
      log_info(dir.string(), ": ignoring ", name, ", which does not belong to the model's weight files");
    }
  }
  for (const std::string& name : wanted) {
    HYDRA_REQUIRE(fs::exists(dir / name), (dir / name).string(), ": file is missing; ", index_file, " names it");
    model.files_.push_back(SafetensorsFile::open(dir / name));
    for (const auto& [tensor, info] : model.files_.back().header().tensors) {
      model.where_.emplace(tensor, model.files_.size() - 1);
    }
  }
  if (!index.empty()) {
    check_index(index, model.files_, index_path);
  }
  return model;
}

std::vector<std::string> HfModelDir::names() const {
  std::vector<std::string> names;
  names.reserve(where_.size());
  for (const auto& [name, file] : where_) {
    names.push_back(name);
  }
  return names;
}

const TensorInfo& HfModelDir::info(const std::string& name) const {
  const auto found = where_.find(name);
  HYDRA_REQUIRE(found != where_.end(), dir_.string(), ": tensor ", name, " is missing");
  return files_[found->second].header().tensors.at(name);
}

at::Tensor HfModelDir::load(const std::string& name) const {
  const auto found = where_.find(name);
  HYDRA_REQUIRE(found != where_.end(), dir_.string(), ": tensor ", name, " is missing");
  return files_[found->second].load(name);
}

std::string HfModelDir::sha256() const {
  Sha256 hash;
  hash.update(read_file(dir_ / "config.json"));
  for (const SafetensorsFile& file : files_) {
    hash.update(MappedFile::open(file.path()).text());
  }
  return hash.hex();
}

std::vector<ModelShard> cut_into_shards(const std::vector<std::pair<std::string, std::uint64_t>>& tensors,
                                        std::uint64_t max_shard_bytes, std::size_t at_least) {
  std::uint64_t total = 0;
  for (const auto& [name, bytes] : tensors) {
    total += bytes;
  }
  const std::uint64_t limit = std::min(max_shard_bytes, (total + at_least - 1) / at_least);
  std::vector<ModelShard> shards(1);
  for (const auto& [name, bytes] : tensors) {
    if (!shards.back().tensors.empty() && shards.back().bytes + bytes > limit) {
      shards.emplace_back();
    }
    shards.back().tensors.push_back(name);
    shards.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    shards[i].file = shards.size() == 1 ? single_file : name;
  }
  return shards;
}

void write_shard(const std::filesystem::path& dir, const std::string& file, const NamedTensors& tensors) {
  write_safetensors(dir / file, tensors, {{"format", "pt"}});
}

void write_shard_index(const std::filesystem::path& dir, const std::vector<ModelShard>& shards) {
  if (shards.size() == 1) {
    return;
  }
  std::uint64_t total = 0;
  WeightMap where;
  for (const ModelShard& shard : shards) {
    total += shard.bytes;
    for (const std::string& tensor : shard.tensors) {
      where[tensor] = shard.file;
    }
  }
  Json weight_map = Json::object();
  for (const auto& [tensor, file] : where) {
    weight_map[tensor] = file;
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  write_file_atomic(dir / index_file, index.dump(2) + "\n");
}

void write_model_tensors(const std::filesystem::path& dir, const NamedTensors& tensors, std::uint64_t max_shard_bytes) {
  std::vector<std::pair<std::string, std::uint64_t>> sizes;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : tensors) {
    sizes.emplace_back(name, tensor.nbytes());
    by_name[name] = tensor;
  }
  const std::vector<ModelShard> shards = cut_into_shards(sizes, max_shard_bytes);
  for (const ModelShard& shard : shards) {
    NamedTensors part;
    for (const std::string& name : shard.tensors) {
      part.emplace_back(name, by_name.at(name));
    }
    write_shard(dir, shard.file, part);
  }
  write_shard_index(dir, shards);
}

void copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}) {
    if (fs::exists(from / name)) {
      fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing);
    }
  }
}

}  // namespace hydra::io
