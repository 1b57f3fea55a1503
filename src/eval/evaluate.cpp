#include "hydrahead/eval/evaluate.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "hydrahead/base/files.hpp"
#include "hydrahead/eval/perplexity_run.hpp"

namespace hydra::eval {
namespace {

std::int64_t count_parameters(model::Model model) {  // the copy shares the tensors
  std::int64_t count = 0;
  for (const model::Parameter& parameter : model::parameters(model)) {
    count += parameter.tensor->numel();
  }
  return count;
}

PplResult evaluate_ppl(const std::string& name, const model::Model& model, const Json& identity,
                       const EvalInputs& inputs, const fs::path& dir, dist::Communicator& communicator) {
  HYDRA_CHECK(inputs.ppl_rows != nullptr, "perplexity without rows");
  Json settings = identity;
  settings["rows_sha256"] = rows_sha256(*inputs.ppl_rows);
  const fs::path file = dir / "ppl.json";
  if (fs::exists(file)) {
    const Json known = read_json_file(file.string());
    require_same_settings(known.value("settings", Json::object()), settings, file);
    return ppl_from_json(known.at("result"));
  }
  communicator.barrier();  // every rank has looked before rank 0 writes
  const PplResult result =
      measure_perplexity(name, model, *inputs.ppl_rows, {.state_type = inputs.state_type}, communicator);
  if (communicator.rank() == 0) {
    write_file_atomic(file, Json{{"settings", settings}, {"result", to_json(result)}}.dump(1) + "\n");
    write_file_atomic(dir / "ppl.md", ppl_table({result}));
  }
  return result;
}

NiahSummary evaluate_niah(const std::string& name, const model::Model& model, const Json& identity,
                          const EvalInputs& inputs, const fs::path& dir, dist::Communicator& communicator) {
  HYDRA_CHECK(inputs.corpora != nullptr, "NIAH without corpora");
  NiahSubject subject{.name = name,
                      .identity = identity,
                      .stop_ids = model.config.base.stop_ids,
                      .trained_context = 0};  // a run of a config measures beyond it on purpose
  NiahRunOptions options;
  options.out = dir / "niah";
  options.skip_unfit = true;
  options.force = true;
  options.batch_tokens =
      default_batch_tokens(model.embed.device(), cache_use(model.config, model.compute_type, inputs.state_type));
  NiahRun run(*inputs.config.niah, *inputs.corpora, inputs.tokenizer, std::move(subject), std::move(options),
              communicator);
  return run.run(model_generator(model, inputs.state_type));
}

}  // namespace

Generate model_generator(const model::Model& model, model::StateType state_type) {
  return [&model, state_type](const std::vector<std::vector<std::int32_t>>& prompts,
                              const std::vector<std::int64_t>& budgets) {
    model::GenerateOptions options;
    options.prefill_chunk = model.embed.is_cuda() ? 65536 : 8192;  // launches bound short rounds on a GPU
    options.budgets = budgets;
    options.stop_ids = model.config.base.stop_ids;
    options.state_type = state_type;
    return model::generate(model, prompts, options);
  };
}

std::string precision_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "fp32";
    case at::kBFloat16: return "bf16";
    case at::kHalf: return "fp16";
    default: return at::toString(type);
  }
}

model::CacheBytes cache_use(const model::ModelConfig& config, at::ScalarType compute_type,
                            model::StateType state_type) {
  const auto kv_bytes = static_cast<std::int64_t>(at::elementSize(compute_type));
  const std::int64_t state_bytes = state_type == model::StateType::fp32 ? 4 : 2;
  if (config.plan) {
    return model::cache_bytes(config.base, *config.plan, kv_bytes, state_bytes, config.hybrid->gdn.conv.kernel > 0);
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(config.base.heads));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::vector<std::int64_t>> layers(static_cast<std::size_t>(config.base.layers), all);
  return model::cache_bytes(config.base, model::make_plan(config.base, layers, "teacher"), kv_bytes, state_bytes,
                            false);
}

std::int64_t default_batch_tokens(const at::Device& device, const model::CacheBytes& cache) {
  if (device.is_cuda()) {
    return 524288;
  }
  constexpr std::int64_t cpu_cache_bytes = std::int64_t{1} << 30;
  return std::clamp<std::int64_t>(cpu_cache_bytes / std::max<std::int64_t>(1, cache.kv_per_token), 16384, 131072);
}

StateResult evaluate_state(const std::string& name, const model::Model& model, const Json& weights,
                           const EvalInputs& inputs, const fs::path& dir, dist::Communicator& communicator) {
  Json identity = weights;
  identity["precision"] = precision_name(model.compute_type);
  identity["state_dtype"] = inputs.state_type == model::StateType::fp32 ? "fp32" : "bf16";
  if (communicator.rank() == 0) {
    fs::create_directories(dir);
  }
  communicator.barrier();
  StateResult state{.name = name,
                    .parameters = count_parameters(model),
                    .cache = cache_use(model.config, model.compute_type, inputs.state_type),
                    .niah = std::nullopt,
                    .ppl = std::nullopt};
  if (inputs.config.ppl && inputs.ppl_rows != nullptr && !inputs.ppl_rows->empty()) {
    state.ppl = evaluate_ppl(name, model, identity, inputs, dir, communicator);
  }
  if (inputs.config.niah) {
    state.niah = evaluate_niah(name, model, identity, inputs, dir, communicator);
  }
  if (communicator.rank() == 0) {
    const Json json = {{"format", "hydrahead evaluated state 1"},
                       {"name", state.name},
                       {"parameters", state.parameters},
                       {"kv_bytes_per_token", state.cache.kv_per_token},
                       {"constant_state_bytes", state.cache.constant},
                       {"niah", state.niah.has_value()},
                       {"ppl", state.ppl.has_value()}};
    write_file_atomic(dir / "state.json", json.dump(1) + "\n");
  }
  communicator.barrier();
  return state;
}

std::optional<StateResult> read_state(const fs::path& dir) {
  const fs::path file = dir / "state.json";
  if (!fs::exists(file)) {
    return std::nullopt;
  }
  const Json json = read_json_file(file.string());
  try {
    StateResult state{
        .name = json.at("name"),
        .parameters = json.at("parameters"),
        .cache = {.kv_per_token = json.at("kv_bytes_per_token"), .constant = json.at("constant_state_bytes")},
        .niah = std::nullopt,
        .ppl = std::nullopt};
    if (json.at("niah").get<bool>()) {
      state.niah = read_niah_summary(dir / "niah" / "summary.json");
    }
    if (json.at("ppl").get<bool>()) {
      state.ppl = ppl_from_json(read_json_file((dir / "ppl.json").string()).at("result"));
    }
    return state;
  } catch (const Json::exception& error) {
    fail_request(file.string(), ": found no evaluated state of this version: ", error.what());
  }
}

}  // namespace hydra::eval
