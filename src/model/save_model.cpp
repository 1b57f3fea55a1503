// Writing a checkpoint that others can load: config.json in both spellings of RoPE and of the type, weights in shards,
// tokenizer and generation files. It is read back before it appears under its name.

#include <ATen/ATen.h>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "weight_names.hpp"

namespace hydra::model {
namespace {

at::ScalarType stored_type(const std::string& dtype) {
  HYDRA_REQUIRE(dtype == "bfloat16" || dtype == "float16" || dtype == "float32", "dtype: found ", dtype,
                ", expected bfloat16, float16 or float32");
  return dtype == "bfloat16" ? at::kBFloat16 : dtype == "float16" ? at::kHalf : at::kFloat;
}

Json config_json(const ModelConfig& config) {
  Json json = write_qwen3_config(config.base);
  if (!config.plan) {
    return json;
  }
  json["architectures"] = {"HydraHeadForCausalLM"};
  json["model_type"] = "hydrahead";
  json["hydrahead_format"] = hybrid_format;
  write_plan_json(json, *config.plan);
  json.update(write_hybrid_json(*config.hybrid));
  return json;
}

// What a tensor is stored as: a weight that is not finite there (fp16 overflows at 65504) ends the save.
at::Tensor stored(const std::string& name, const at::Tensor& weight, at::ScalarType type) {
  at::Tensor value = weight.to(type).contiguous();
  if (!all_finite(value)) {
    throw Error(detail::concat("tensor ", name, " holds values that are not finite as ", at::toString(type),
                               ": the model is not saved"));
  }
  return value;
}

// The file must hold the very bytes that were meant.
void check_file(const std::filesystem::path& path, const io::NamedTensors& tensors) {
  const auto file = io::SafetensorsFile::open(path);
  for (const auto& [name, tensor] : tensors) {
    HYDRA_CHECK(at::equal(file.load(name), tensor), path.string(), ": tensor ", name, " reads back differently");
  }
}

// The directory must load with the configuration it was made from.
void check_directory(const std::filesystem::path& dir, const ModelConfig& config) {
  const io::HfModelDir saved = io::HfModelDir::open(dir);
  const ModelConfig read = read_model_config(saved);
  match_tensors(saved, read);
  HYDRA_CHECK(config_json(read) == saved.config() && read.plan.has_value() == config.plan.has_value(), dir.string(),
              ": config.json reads back differently");
}

ModelConfig stored_config(const ModelConfig& config, const SaveOptions& options) {
  ModelConfig result = config;
  result.base.dtype = options.dtype.empty() ? config.base.dtype : options.dtype;
  return result;
}

}  // namespace

void save_model_part(const ModelConfig& source, const std::filesystem::path& dir, const SaveOptions& options, int rank,
                     int ranks, const WeightsOnHost& weights) {
  const ModelConfig config = stored_config(source, options);
  Model skeleton;
  skeleton.layers.resize(static_cast<std::size_t>(config.base.layers));
  std::map<std::string, at::ScalarType> types;
  std::vector<std::pair<std::string, std::uint64_t>> sizes;
  for (const WeightSlot& slot : weight_table(config, skeleton)) {
    const at::ScalarType type = slot.parameter.keep_fp32 ? at::kFloat : stored_type(config.base.dtype);
    types[slot.parameter.name] = type;
    sizes.emplace_back(slot.parameter.name, c10::multiply_integers(slot.shape) * at::elementSize(type));
  }
  const std::vector<io::ModelShard> shards =
      io::cut_into_shards(sizes, options.max_shard_bytes, static_cast<std::size_t>(ranks));
  std::map<std::string, std::size_t> shard_of;
  for (std::size_t i = static_cast<std::size_t>(rank); i < shards.size(); i += static_cast<std::size_t>(ranks)) {
    for (const std::string& name : shards[i].tensors) {
      shard_of[name] = i;
    }
  }
  std::map<std::size_t, io::NamedTensors> files;
  for (const auto& [name, weight] : weights([&](const std::string& name) { return shard_of.count(name) > 0; })) {
    files[shard_of.at(name)].emplace_back(name, stored(name, weight, types.at(name)));
  }
  for (const auto& [i, tensors] : files) {
    HYDRA_CHECK(tensors.size() == shards[i].tensors.size(), shards[i].file, ": ", tensors.size(), " tensors, expected ",
                shards[i].tensors.size());
    io::write_shard(dir, shards[i].file, tensors);
    check_file(dir / shards[i].file, tensors);
  }
  if (rank != 0) {
    return;
  }
  io::write_shard_index(dir, shards);
  write_file_atomic(dir / "config.json", config_json(config).dump(2) + "\n");
  if (!options.tokenizer_source.empty()) {
    io::copy_tokenizer_files(options.tokenizer_source, dir);
  }
  for (const auto& [name, content] : options.extra_files) {
    write_file_atomic(dir / name, content);
  }
}

void save_model(Model& model, const std::filesystem::path& dir, const SaveOptions& options) {
  AtomicDirectory out(dir);
  const auto weights = [&](const auto&) {
    io::NamedTensors tensors;
    for (const Parameter& parameter : parameters(model)) {
      tensors.emplace_back(parameter.name, parameter.tensor->detach().to(at::kCPU));
    }
    return tensors;
  };
  save_model_part(model.config, out.path(), options, 0, 1, weights);
  check_directory(out.path(), stored_config(model.config, options));
  out.commit();
}

}  // namespace hydra::model
