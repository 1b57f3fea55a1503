#include "hydrahead/optim/optim_config.hpp"

#include <array>

namespace hydra::optim {

const char* shard_name(Shard shard) {
  constexpr std::array<const char*, 4> names{"none", "optimizer", "gradients", "parameters"};
  return names[static_cast<std::size_t>(shard)];
}

void describe(config::Binder& binder, OptimizerConfig& value) {
  binder.field("betas", value.betas, {.text = "AdamW's decay rates of both moments; below 1.", .min = 0, .max = 1});
  binder.require(value.betas.size() == 2 && value.betas[0] < 1 && value.betas[1] < 1, "betas",
                 "expected two numbers below 1");
  binder.field("eps", value.eps, {.text = "Added to the root of the second moment.", .min = 1e-20, .max = 1});
  binder.field("weight_decay", value.weight_decay,
               {.text = "Decoupled; never on norms, gamma, A_log, dt_bias.", .min = 0, .max = 10});
  binder.field("clip", value.clip, {.text = "Largest global gradient norm; 0: no clipping.", .min = 0});
}

void describe(config::Binder& binder, LrScale& value) {
  binder.field("base", value.base, {.text = "Everything outside the attention modules.", .min = 0});
  binder.field("attention", value.attention, {.text = "The hybrid attention modules.", .min = 0});
}

void describe(config::Binder& binder, LrConfig& value) {
  binder.field("peak", value.peak, {.text = "Learning rate after the warm-up.", .min = 0, .max = 10});
  binder.field("final", value.final_rate, {.text = "Learning rate at the end of a cosine.", .min = 0, .max = 10});
  binder.choice("schedule", value.schedule, {{Schedule::cosine, "cosine"}, {Schedule::constant, "constant"}},
                {"After the warm-up."});
  binder.field("warmup", value.warmup, {.text = "Linear from 0.", .unit = "steps", .min = 0});
  binder.section("scale", value.scale, "Factors on the learning rate of a group of parameters.");
  binder.no_effect("final", value.schedule == Schedule::constant, "schedule is constant");
}

}  // namespace hydra::optim
