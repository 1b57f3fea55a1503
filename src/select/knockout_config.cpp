#include "hydrahead/select/knockout_config.hpp"

#include "hydrahead/data/data_config.hpp"

namespace hydra::select {

void describe(config::Binder& binder, KnockoutConfig& value) {
  data::describe_tasks(binder, "tasks", value.tasks, data::all_niah_tasks,
                       {"Tasks whose answers are scored, at select.context."});
  binder.field("samples", value.samples, {.text = "Samples a task.", .min = 1, .max = 100000});
  binder.field("counts", value.counts,
               {.text = "Heads removed, a point each. Empty: 0, 1, 2, 3, 4, 6, 8, 12, ... up to half of all.",
                .unit = "heads",
                .min = 0});
  binder.field("random_orders", value.random_orders,
               {.text = "Random orders beside the score's and its reverse.", .min = 0, .max = 100});
  binder.field("seed", value.seed, {.text = "Of the samples.", .min = 0});
}

}  // namespace hydra::select
