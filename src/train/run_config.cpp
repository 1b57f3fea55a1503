#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

void describe(config::Binder& binder, ParallelConfig& value) {
  binder.field("data", value.data,
               {.text = "Ranks that share the rows of a batch.", .unit = "ranks", .min = 1, .max = 65536});
  binder.field("context", value.context,
               {.text = "Ranks that share one row.", .unit = "ranks", .min = 1, .max = 65536});
  binder.choice("shard", value.shard,
                {{Shard::none, "none"},
                 {Shard::optimizer, "optimizer"},
                 {Shard::gradients, "gradients"},
                 {Shard::parameters, "parameters"}},
                {"What is split over the data ranks in place of being kept whole by each: fp32 masters and moments "
                 "(optimizer), also gradients (gradients)."});
  binder.field(
      "timeout", value.timeout,
      {.text = "Longest wait for the other ranks at the start, then for one that does not answer any more; after "
               "it the rank ends. One that answers and is late is waited for.",
       .unit = "seconds",
       .min = 1,
       .max = 1000000});
}

void describe(config::Binder& binder, CheckpointConfig& value) {
  binder.field("every", value.every,
               {.text = "Between checkpoints; one is always written at a stage's end.", .unit = "steps", .min = 1});
  binder.field("keep", value.keep, {.text = "Newest checkpoints that stay.", .min = 1, .max = 1000000});
  binder.field("signal", value.signal,
               {"A further signal, beside TERM and INT, that saves and stops, for example USR1. Empty: none."});
}

void describe(config::Binder& binder, CacheConfig& value) {
  binder.choice("state_dtype", value.state_dtype, {{model::StateType::fp32, "fp32"}, {model::StateType::bf16, "bf16"}},
                {"Storage of the GDN states while decoding."});
}

void describe(config::Binder& binder, LogConfig& value) {
  binder.field("every", value.every, {.text = "Between progress lines.", .unit = "steps", .min = 1});
  binder.field("tensorboard", value.tensorboard, {"Write a TensorBoard event file beside metrics.jsonl."});
}

void describe(config::Binder& binder, RunConfig& value) {
  binder.path("teacher", value.teacher, {"Qwen3 checkpoint directory, with its tokenizer."});
  binder.path("run_dir", value.run_dir, {"Output directory of `train`."});
  binder.field("seed", value.seed, {.text = "Of everything random.", .min = 0});
  binder.choice("device", value.device,
                {{DeviceChoice::automatic, "auto"}, {DeviceChoice::cpu, "cpu"}, {DeviceChoice::cuda, "cuda"}},
                {"auto: CUDA if there is a device."});
  binder.choice("precision", value.precision,
                {{Precision::automatic, "auto"}, {Precision::fp32, "fp32"}, {Precision::bf16, "bf16"}},
                {"Of activations; parameters always have fp32 masters. auto: fp32 on the CPU, bf16 on CUDA."});
  binder.field("deterministic", value.deterministic, {"Refuse what has no deterministic form."});
  binder.section("heads", value.heads, "Which heads keep full attention (method.md 3.5).");
  binder.section("hybrid", value.hybrid, "The hybrid attention layer (method.md section 4).");
  binder.section("calibration", value.calibration, "Teacher statistics for the initial values (method.md 4.4).");
  binder.section("data", value.data, "Text.");
  binder.section("select", value.select, "Head scoring (method.md section 3).");
  binder.section("parallel", value.parallel, "Ranks; data * context is their number.");
  binder.section("optimizer", value.optimizer, "AdamW.");
  binder.section("stages", value.stages, "Run in this order; a stage that is absent is skipped (method.md section 6).");
  binder.section("checkpoint", value.checkpoint, "Saving.");
  binder.section("eval", value.eval, "Evaluation in the course of `train`, and the settings of `eval --config`.");
  binder.section("cache", value.cache, "Decode state.");
  binder.section("log", value.log, "Progress and metrics.");
}

RunConfig read_run_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  RunConfig config;
  config::read_yaml(file, overrides, [&](config::Binder& binder) { describe(binder, config); });
  return config;
}

std::string resolved_yaml(const RunConfig& config) {
  RunConfig copy = config;  // describe takes a mutable tree
  return config::write_yaml([&](config::Binder& binder) { describe(binder, copy); });
}

std::string config_documentation() {
  RunConfig defaults;
  return "# Configuration\n\nEvery key of a run's YAML file, with its default. `hydrahead document-config` writes this "
         "page.\n" +
         config::document([&](config::Binder& binder) { describe(binder, defaults); });
}

}  // namespace hydra::train
