// A model of given shapes with random weights, for benchmarks and tests: matrices N(0, 1/columns), so that activations
// keep their size through the layers; vectors near the values that training gives them.

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cmath>

#include "hydrahead/model/hydra_model.hpp"
#include "weight_names.hpp"

namespace hydra::model {

Model random_model(const ModelConfig& config, const LoadOptions& options, std::int64_t seed) {
  Model model = empty_model(config, options);
  at::Generator generator = at::globalContext().defaultGenerator(options.device).clone();
  generator.set_current_seed(static_cast<std::uint64_t>(seed));
  for (const WeightSlot& slot : weight_table(model.config, model)) {
    const auto type = at::TensorOptions().device(options.device).dtype(memory_type(slot.parameter, options));
    const std::string_view name = slot.parameter.name;
    at::Tensor value = at::empty(slot.shape, type);
    if (slot.shape.size() == 2) {
      value.normal_(0.0, 1.0 / std::sqrt(static_cast<double>(slot.shape[1])), generator);
    } else {
      const bool around_one = name.ends_with("norm.weight") || name.ends_with("gamma");
      value.normal_(around_one ? 1.0 : name.ends_with("dt_bias") ? -3.0 : 0.0, 0.05, generator);
    }
    *slot.parameter.tensor = value;
  }
  if (model.config.base.tie_word_embeddings) {
    model.head = model.embed;
  }
  return model;
}

}  // namespace hydra::model
