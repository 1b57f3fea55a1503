#include "hydrahead/train/bench_step.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "hydrahead/base/random.hpp"
#include "hydrahead/train/device_info.hpp"
#include "hydrahead/train/memory_estimate.hpp"
#include "hydrahead/train/trainer.hpp"

namespace hydra::train {
namespace {

struct NamedShape {
  const char* name;
  std::int64_t layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary;
  bool tied;
};
constexpr std::array<NamedShape, 6> kShapes{{{"qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 151936, true},
                                             {"qwen3-1.7b", 28, 2048, 6144, 16, 8, 128, 151936, true},
                                             {"qwen3-4b", 36, 2560, 9728, 32, 8, 128, 151936, true},
                                             {"qwen3-8b", 36, 4096, 12288, 32, 8, 128, 151936, false},
                                             {"qwen3-mini", 12, 384, 1152, 8, 4, 64, 4096, true},
                                             {"qwen3-nano", 6, 192, 576, 4, 2, 64, 4096, true}}};

// One document of random tokens a row.
class RandomTokens : public data::RowSource {
 public:
  RandomTokens(std::int64_t context, std::int64_t vocabulary) : context_(context), vocabulary_(vocabulary) {}
  data::Row row(std::uint64_t index) const override {
    RandomStream random(0, static_cast<std::uint32_t>(index));
    data::Row row;
    for (std::int64_t t = 0; t < context_; ++t) {
      row.ids.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(vocabulary_))));
    }
    row.labels.assign(row.ids.begin() + 1, row.ids.end());
    row.labels.push_back(-1);
    row.lengths = {context_};
    row.documents = {"random"};
    return row;
  }

 private:
  std::int64_t context_, vocabulary_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Timing {
  double first_seconds = 0.0;
  std::vector<double> seconds, communication;  // of each later step; of it waiting for collectives
  void add(double value, double waited = 0.0) {
    if (first_seconds == 0) {
      first_seconds = value;
      return;
    }
    seconds.push_back(value);
    communication.push_back(waited);
  }
};

// The largest value of any rank.
std::int64_t most_of_ranks(dist::Communicator& communicator, std::int64_t value) {
  std::int64_t most = 0;
  for (const std::string& text : dist::gather_texts(communicator, std::to_string(value))) {
    most = std::max(most, static_cast<std::int64_t>(std::stoll(text)));
  }
  return most;
}

Stage bench_stage(const BenchOptions& options) {
  StageSchedule schedule;
  schedule.steps = options.steps + 1;
  schedule.context = options.context;
  schedule.global_batch = options.batch;
  schedule.micro_batch = options.micro_batch;
  AlignStage align;
  align.schedule = schedule;
  DistillStage distill;
  distill.schedule = schedule;
  distill.recompute = options.recompute_set ? options.recompute : distill.recompute;
  LongContextStage long_context;
  long_context.schedule = schedule;
  long_context.recompute = options.recompute_set ? options.recompute : long_context.recompute;
  if (options.stage == "align") {
    return align_stage(align);
  }
  if (options.stage == "distill") {
    return distill_stage(distill, 0);
  }
  HYDRA_REQUIRE(options.stage == "long_context", "--stage: found '", options.stage,
                "', expected align, distill, long_context or prefill");
  return long_context_stage(long_context, model::LogScaleMode::stage3_and_inference);
}

Timing time_stage(const Stage& stage, const model::ModelConfig& hybrid, std::int64_t micro_batch, optim::Shard shard,
                  const at::Device& device, at::ScalarType compute_type, dist::Communicator& communicator) {
  model::Model student = model::random_model(hybrid, {device, at::kFloat, compute_type}, 1);
  std::optional<model::Model> teacher;
  if (stage.needs_teacher) {
    teacher = model::random_model({hybrid.base, std::nullopt, std::nullopt}, {device, compute_type, compute_type}, 2);
  }
  const RandomTokens rows(stage.schedule.context, hybrid.base.vocab_size);
  Timing timing;
  checkpoint::RunState state;
  train_stage({.stage = stage,
               .student = student,
               .teacher = teacher ? &*teacher : nullptr,
               .rows = rows,
               .validation = {},
               .optimizer = {},
               .communicator = communicator,
               .micro_batch = micro_batch,
               .shard = shard,
               .prove_frozen = false,
               .on_start = [](const TrainableSplit&) {},
               .on_step = [&](const checkpoint::RunState&,
                              const StepReport& report) { timing.add(report.seconds, report.communication_seconds); },
               .on_validation = {},
               .save = [](const checkpoint::RunState&, const StageWeights&) {}},
              state, std::nullopt);
  return timing;
}

// One forward pass over all rows, hidden states only up to the logits of the last row of each sequence; no cache is
// kept.
Timing time_prefill(const model::ModelConfig& config, const BenchOptions& options, const at::Device& device,
                    at::ScalarType compute_type) {
  const at::NoGradGuard no_grad;
  const model::Model model = model::random_model(config, {device, compute_type, compute_type}, 1);
  const at::Tensor ids = at::randint(config.base.vocab_size, {options.batch * options.context},
                                     at::TensorOptions(device).dtype(at::kLong));
  const auto sequences =
      ops::make_sequences(std::vector<std::int64_t>(static_cast<std::size_t>(options.batch), options.context), device);
  model::ForwardOptions forward;
  forward.log_scale = config.plan.has_value();
  const at::Tensor last = at::arange(1, options.batch + 1, ids.options()) * options.context - 1;
  Timing timing;
  for (std::int64_t step = 0; step <= options.steps; ++step) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    model::logits_of(model, model::forward_hidden(model, ids, sequences, forward).index_select(0, last));
    synchronize(device);
    timing.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return timing;
}

}  // namespace

model::Qwen3Config bench_shape(const std::string& name) {
  std::string known;
  for (const NamedShape& shape : kShapes) {
    if (name == shape.name) {
      model::Qwen3Config config;
      config.vocab_size = shape.vocabulary;
      config.hidden_size = shape.hidden;
      config.intermediate_size = shape.intermediate;
      config.layers = shape.layers;
      config.heads = shape.heads;
      config.kv_heads = shape.kv_heads;
      config.head_dim = shape.head_dim;
      config.max_position = 40960;
      config.tie_word_embeddings = shape.tied;
      config.rope.theta = 1e6;
      return config;
    }
    known += std::string(known.empty() ? "" : ", ") + shape.name;
  }
  fail_request("--shape: found '", name, "', expected one of ", known);
}

Json bench_step(const model::ModelConfig& hybrid, const BenchOptions& options, const at::Device& device,
                at::ScalarType compute_type, dist::Communicator& communicator) {
  const bool prefill = options.stage == "prefill";
  const Sharding sharding{options.shard, communicator.size()};
  HYDRA_REQUIRE(!prefill || sharding.ranks == 1, "bench step: prefill runs on one rank, found ", sharding.ranks);
  const DeviceInfo info = device_info(device);
  const model::ModelConfig teacher{hybrid.base, std::nullopt, std::nullopt};
  const std::int64_t compute_bytes = at::elementSize(compute_type);
  Json record;
  record["device"] = info.name;
  record["precision"] = at::toString(compute_type);
  record["stage"] = options.stage;
  record["layers"] = hybrid.base.layers;
  record["hidden_size"] = hybrid.base.hidden_size;
  const std::int64_t all_heads = hybrid.base.layers * hybrid.base.heads;
  record["heads"] = all_heads;
  record["fa_heads"] = options.teacher_prefill ? all_heads : hybrid.plan->fa_count();
  record["context"] = options.context;
  record["batch"] = options.batch;

  reset_peak_memory(device);
  Timing timing;
  double flops_per_token = 0.0;
  if (prefill) {
    const model::ModelConfig& config = options.teacher_prefill ? teacher : hybrid;
    timing = time_prefill(config, options, device, compute_type);
    flops_per_token =
        metrics::forward_flops(flops_shape(config), static_cast<double>(options.context), /*with_head=*/false);
  } else {
    const Stage stage = bench_stage(options);
    const std::int64_t micro_batch =
        choose_micro_batch(hybrid, stage, sharding, compute_bytes, device.is_cpu(), info.memory_bytes);
    record["micro_batch"] = micro_batch;
    record["recompute"] = stage.recompute;
    record["ranks"] = sharding.ranks;
    record["shard"] = optim::shard_name(options.shard);
    record["estimated_bytes"] = estimate_memory(hybrid, stage, micro_batch, compute_bytes, sharding).total();
    timing = time_stage(stage, hybrid, micro_batch, options.shard, device, compute_type, communicator);
    record["communication_ms"] = 1e3 * median(timing.communication);
    flops_per_token = stage.flops_per_token(flops_shape(hybrid), flops_shape(teacher));
  }
  const double tokens_per_second = static_cast<double>(options.batch * options.context) / median(timing.seconds);
  record["steps"] = options.steps;
  record["first_step_ms"] = 1e3 * timing.first_seconds;
  record["step_ms"] = 1e3 * median(timing.seconds);
  record["step_ms_least"] = 1e3 * *std::min_element(timing.seconds.begin(), timing.seconds.end());
  record["step_ms_most"] = 1e3 * *std::max_element(timing.seconds.begin(), timing.seconds.end());
  record["tokens_per_second"] = tokens_per_second;
  record["tflops"] = 1e-12 * flops_per_token * tokens_per_second;
  record["peak_tflops_of_device"] = 1e-12 * info.peak_flops;
  record["mfu"] = metrics::model_flops_utilisation(flops_per_token, tokens_per_second, info.peak_flops, sharding.ranks);
  record["peak_memory_bytes"] = most_of_ranks(communicator, peak_memory(device));
  return record;
}

std::string bench_text(const Json& record) {
  const auto number = [&](const char* key) { return record[key].get<double>(); };
  const auto integer = [&](const char* key) { return static_cast<long long>(record[key].get<std::int64_t>()); };
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s, %s, %s\n%lld layers, hidden %lld, %lld of %lld heads FA, %lld rows x %lld tokens\n"
                "first step %.0f ms; then median %.1f ms of %lld (%.1f ... %.1f)\n"
                "%.0f tokens/s, %.1f TFLOP/s (model FLOPs, no recomputation), peak memory %.2f GiB\n",
                record["device"].get<std::string>().c_str(), record["precision"].get<std::string>().c_str(),
                record["stage"].get<std::string>().c_str(), integer("layers"), integer("hidden_size"),
                integer("fa_heads"), integer("heads"), integer("batch"), integer("context"), number("first_step_ms"),
                number("step_ms"), integer("steps"), number("step_ms_least"), number("step_ms_most"),
                number("tokens_per_second"), number("tflops"), number("peak_memory_bytes") / (1 << 30));
  std::string result = text;
  if (number("peak_tflops_of_device") > 0) {
    std::snprintf(text, sizeof text, "MFU %.1f%% of %.0f TFLOP/s (dense bf16)\n", 100 * number("mfu"),
                  number("peak_tflops_of_device"));
    result += text;
  }
  if (record.contains("estimated_bytes")) {
    std::snprintf(text, sizeof text, "micro-batch %lld rows, recompute %s, memory estimate %.2f GiB\n",
                  integer("micro_batch"), record["recompute"].get<bool>() ? "on" : "off",
                  number("estimated_bytes") / (1 << 30));
    result += text;
  }
  if (record.value("ranks", 1) > 1) {
    std::snprintf(text, sizeof text, "%lld ranks, shard %s: %.1f ms of a step waiting for collectives\n",
                  integer("ranks"), record["shard"].get<std::string>().c_str(), number("communication_ms"));
    result += text;
  }
  return result;
}

}  // namespace hydra::train
