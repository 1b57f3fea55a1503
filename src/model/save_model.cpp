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

// Every parameter in its stored type, in host memory. A weight that is not finite there (fp16 overflows at 65504) ends
// the save.
io::NamedTensors stored_tensors(Model& model, at::ScalarType type) {
  io::NamedTensors tensors;
  for (const Parameter& parameter : parameters(model)) {
    const at::Tensor stored = parameter.tensor->detach().to(parameter.keep_fp32 ? at::kFloat : type);
    if (!all_finite(stored)) {
      throw Error(detail::concat("tensor ", parameter.name, " holds values that are not finite as ",
                                 at::toString(stored.scalar_type()), ": the model is not saved"));
    }
    tensors.emplace_back(parameter.name, stored.to(at::kCPU));
  }
  return tensors;
}

// The directory must load with the configuration it was made from, and hold the very bytes that were meant.
void check_saved(const std::filesystem::path& dir, const ModelConfig& config, const io::NamedTensors& tensors) {
  const io::HfModelDir saved = io::HfModelDir::open(dir);
  const ModelConfig read = read_model_config(saved);
  const auto match = match_tensors(saved, read);
  HYDRA_CHECK(config_json(read) == saved.config() && read.plan.has_value() == config.plan.has_value(), dir.string(),
              ": config.json reads back differently");
  HYDRA_CHECK(match.size() == tensors.size(), dir.string(), ": found ", match.size(), " tensors, wrote ",
              tensors.size());
  for (const auto& [name, tensor] : tensors) {
    HYDRA_CHECK(at::equal(saved.load(match.at(name)), tensor), dir.string(), ": tensor ", name,
                " reads back differently");
  }
}

}  // namespace

void save_model(Model& model, const std::filesystem::path& dir, const SaveOptions& options) {
  ModelConfig config = model.config;
  if (!options.dtype.empty()) {
    config.base.dtype = options.dtype;
  }
  AtomicDirectory out(dir);
  const io::NamedTensors tensors = stored_tensors(model, stored_type(config.base.dtype));
  write_file_atomic(out.path() / "config.json", config_json(config).dump(2) + "\n");
  io::write_model_tensors(out.path(), tensors, options.max_shard_bytes);
  if (!options.tokenizer_source.empty()) {
    io::copy_tokenizer_files(options.tokenizer_source, out.path());
  }
  for (const auto& [name, content] : options.extra_files) {
    write_file_atomic(out.path() / name, content);
  }
  check_saved(out.path(), config, tensors);
  out.commit();
}

}  // namespace hydra::model
