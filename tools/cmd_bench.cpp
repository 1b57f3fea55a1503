// hydrahead bench: whole training steps and prefill on random weights; the gated delta rule alone (cmd_bench_gdn.cpp)
// and the kernels around it (cmd_bench_heads.cpp).

#include <iostream>
#include <memory>
#include <string>

#include "bench_verbs.hpp"
#include "gdn_kernel_option.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "hydrahead/model/device.hpp"
#include "hydrahead/train/bench_step.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"
#include "version.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::string model, shape, json, device = "auto", precision = "auto", recompute, shard = "none";
  double fa_ratio = 0.25;
  train::BenchOptions bench;
};

model::ModelConfig hybrid_of(const Options& options) {
  HYDRA_REQUIRE(options.model.empty() != options.shape.empty(), "bench step: expected one of --model and --shape");
  model::ModelConfig config;
  if (options.model.empty()) {
    config.base = train::bench_shape(options.shape);
  } else {
    config = model::read_model_config(io::HfModelDir::open(options.model));
  }
  if (!config.plan) {
    model::HeadsConfig heads;
    heads.fa_ratio = options.fa_ratio;
    config.hybrid = model::HybridConfig{};
    config.plan = model::plan_by_rule(heads, config.base, 0);
  }
  return config;
}

optim::Shard shard_of(const std::string& word) {
  return word == "optimizer"   ? optim::Shard::optimizer
         : word == "gradients" ? optim::Shard::gradients
                               : optim::Shard::none;
}

void run(const Options& options) {
  const model::ModelConfig hybrid = hybrid_of(options);
  train::BenchOptions bench = options.bench;
  bench.recompute_set = !options.recompute.empty();
  bench.recompute = options.recompute == "on";
  model::LoadOptions load = model::inference_options(options.device, options.precision);
  const dist::LaunchEnv env = dist::read_launch_env();
  if (load.device.is_cuda()) {
    load.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(dist::device_index(env)));
  }
  const auto communicator = dist::make_communicator(env, load.device);
  bench.shard = shard_of(options.shard);
  const Json record = train::bench_step(hybrid, bench, load.device, load.compute_type, *communicator);
  if (env.rank == 0) {
    report_bench(record, train::bench_text(record), options.json);
  }
}

}  // namespace

void report_bench(Json record, const std::string& text, const std::string& json) {
  record["versions"] = version_text();
  std::cout << version_text() << "\n" << text;
  if (!json.empty()) {
    write_file_atomic(json, record.dump(1) + "\n");
  }
}

void add_bench(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("bench", "Time, arithmetic rate and memory");
  verb->require_subcommand(1);
  auto* step = verb->add_subcommand("step", "A whole training step of a stage, or prefill, on random weights");
  const auto options = std::make_shared<Options>();
  step->add_option("--model", options->model, "Take the shape (and a hybrid's plan and options) from this directory");
  step->add_option("--shape", options->shape, "qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-mini or qwen3-nano");
  step->add_option("--stage", options->bench.stage, "align, distill, long_context or prefill")->required();
  step->add_option("--context", options->bench.context, "Tokens a row")->check(integer_from(1));
  step->add_option("--batch", options->bench.batch, "Rows a step")->check(integer_from(1));
  step->add_option("--micro-batch", options->bench.micro_batch, "Rows a forward pass (default: by the memory estimate)")
      ->check(integer_from(1));
  step->add_option("--steps", options->bench.steps, "Timed steps, after the first one")->check(integer_from(1));
  step->add_option("--fa-ratio", options->fa_ratio, "Share of heads with full attention")->check(number_from(0, 1));
  step->add_flag("--teacher", options->bench.teacher_prefill, "Prefill of the full-attention teacher");
  step->add_option("--shard", options->shard, "none, optimizer or gradients: what ranks started by `launch` split")
      ->check(one_of({"none", "optimizer", "gradients"}));
  step->add_option("--recompute", options->recompute, "on or off (default: as the stage has it)")
      ->check(one_of({"on", "off"}));
  step->add_option("--device", options->device, "auto, cpu or cuda");
  step->add_option("--precision", options->precision, "auto, fp32 or bf16");
  add_gdn_kernel_option(*step);
  step->add_option("--json", options->json, "Write the record to this file");
  step->callback([options] { run(*options); });
  add_bench_gdn(*verb);
  add_bench_heads(*verb);
}

}  // namespace hydra::tools
