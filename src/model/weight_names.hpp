#pragma once
// The one table of tensor names (method.md sections 2 and 10): where each tensor of a checkpoint lives in a Model.

#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// `hydrahead_format` of config.json: the version of a hybrid's keys and names.
inline constexpr int hybrid_format = 1;

struct WeightSlot {
  Parameter parameter;
  std::vector<std::int64_t> shape;
};

// Every tensor that `config` asks for, in a fixed order; the pointers lead into `model`, whose layers must be there.
std::vector<WeightSlot> weight_table(const ModelConfig& config, Model& model);

// A model without weights: layers, RoPE frequencies, types.
Model empty_model(ModelConfig config, const LoadOptions& options);

// The type in memory: gamma, A_log and dt_bias never go below fp32.
at::ScalarType memory_type(const Parameter& parameter, const LoadOptions& options);

// One pass, without temporaries.
bool all_finite(const at::Tensor& tensor);

}  // namespace hydra::model
