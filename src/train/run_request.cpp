// What follows from a config before anything is loaded, and the dry run that prints it.

#include "run_request.hpp"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/device.hpp"
#include "hydrahead/train/conversion.hpp"
#include "hydrahead/train/device_info.hpp"
#include "hydrahead/train/memory_estimate.hpp"

namespace hydra::train {
namespace {

std::string stage_text(const RunConfig& config, const model::ModelConfig& hybrid, const Stage& stage, int ranks,
                       const at::Device& device) {
  const std::int64_t compute_bytes = at::elementSize(compute_type(config, device));
  const StageSchedule& schedule = stage.schedule;
  const ParameterCounts counts = parameter_counts(hybrid, stage);
  const Sharding sharding{config.parallel.shard, ranks};
  const std::int64_t micro_batch =
      choose_micro_batch(hybrid, stage, sharding, compute_bytes, device.is_cpu(), device_info(device).memory_bytes);
  return detail::concat("stage ", stage.name, ": ", schedule.total_steps(), " steps of ", schedule.global_batch,
                        " rows x ", schedule.context, " tokens, micro-batch ", micro_batch, "\n  parameters ",
                        counts.all, ", trained ", counts.trained, ", frozen ", counts.all - counts.trained,
                        "; checkpoint ", checkpoint_bytes(counts) >> 20, " MiB\n  memory of each of ", ranks,
                        " rank(s)\n",
                        memory_table(estimate_memory(hybrid, stage, micro_batch, compute_bytes, sharding)));
}

}  // namespace

at::ScalarType compute_type(const RunConfig& config, const at::Device& device) {
  const bool bf16 =
      config.precision == Precision::bf16 || (config.precision == Precision::automatic && device.is_cuda());
  return bf16 ? at::kBFloat16 : at::kFloat;
}

void check_request(const RunConfig& config, const TrainOptions& options, int ranks) {
  HYDRA_REQUIRE(!config.teacher.empty(), "teacher: found nothing, expected a Qwen3 checkpoint directory");
  HYDRA_REQUIRE(!config.run_dir.empty(), "run_dir: found nothing, expected a directory");
  HYDRA_REQUIRE(config.stages.align || config.stages.distill || config.stages.long_context,
                "stages: found none, expected align, distill or long_context");
  HYDRA_REQUIRE(config.parallel.context == 1 && config.parallel.shard != Shard::parameters,
                "parallel: this version trains with context: 1 and shard: none, optimizer or gradients");
  HYDRA_REQUIRE(config.parallel.data == ranks, "parallel.data: found ", config.parallel.data, ", expected ", ranks,
                ", the number of ranks of this job");
  HYDRA_REQUIRE(options.resume || options.resume_from.empty(), "a checkpoint to continue from needs --resume");
}

model::ModelConfig planned_hybrid(const RunConfig& config) {
  const auto dir = io::HfModelDir::open(config.teacher);
  model::ModelConfig hybrid = model::read_model_config(dir);
  HYDRA_REQUIRE(!hybrid.plan, config.teacher.string(), ": found a hybrid checkpoint, expected a teacher");
  hybrid.hybrid = config.hybrid;
  hybrid.plan = choose_plan(config.heads, dir, hybrid.base, config.seed);
  return hybrid;
}

at::Device device_of_rank(DeviceChoice choice, const dist::LaunchEnv& env) {
  const char* word = choice == DeviceChoice::cpu ? "cpu" : choice == DeviceChoice::cuda ? "cuda" : "auto";
  at::Device device = model::choose_device(word);
  if (device.is_cuda()) {
    device.set_index(static_cast<c10::DeviceIndex>(dist::device_index(env)));
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  }
  return device;
}

std::string describe_run(const RunConfig& config, int ranks, const at::Device& device) {
  check_request(config, {}, ranks);
  const model::ModelConfig hybrid = planned_hybrid(config);
  std::string text = resolved_yaml(config) + "\n# What `train` would do with it (nothing was touched)\n";
  for (const Stage& stage : make_stages(config.stages, config.hybrid.fa.log_scale.mode, hybrid.base.vocab_size)) {
    text += stage_text(config, hybrid, stage, ranks, device);
  }
  return text;
}

}  // namespace hydra::train
