#pragma once
// The three stages' losses on one micro-batch, forward and (optionally) backward: the same functions serve training,
// validation and `verify` (method.md section 6, Eq. 15 and 16).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::train {

// A micro-batch on the device. Rows are flat; labels[i] < 0 means that row i is not counted by KL and CE.
struct DeviceBatch {
  at::Tensor ids;     // [N] int64
  at::Tensor labels;  // [N] int64
  ops::Sequences sequences;
};

enum class AlignTarget { sublayer, layer };
enum class AlignInput { teacher, student };

struct AlignOptions {
  AlignTarget target = AlignTarget::sublayer;
  AlignInput input = AlignInput::teacher;
};

struct DistillOptions {
  double kl_weight = 1.0, ce_weight = 0.1, temperature = 1.0;
  std::int64_t vocab_limit = 0;  // 0: full
  std::int64_t chunk_rows = 1024;
  bool recompute = false;
};

// Detached fp64 scalars on the device. `loss` is this micro-batch's share of the global loss (already divided).
struct StageLoss {
  at::Tensor loss;
  at::Tensor mse, kl, ce;             // undefined where the stage has no such term; shares like `loss`, without weights
  std::vector<at::Tensor> layer_mse;  // align only
};

// divisor: the global number of counted positions (align: of all positions). backward: accumulate into .grad of the
// student's parameters that require grad. Align keeps the activations of one layer at a time.
StageLoss align_loss(const model::Model& student, const model::Model& teacher, const DeviceBatch& batch, double divisor,
                     const AlignOptions& options, bool backward);
StageLoss distill_loss(const model::Model& student, const model::Model& teacher, const DeviceBatch& batch,
                       double divisor, const DistillOptions& options, bool backward);
StageLoss long_context_loss(const model::Model& student, const DeviceBatch& batch, double divisor, bool log_scale,
                            bool recompute, std::int64_t chunk_rows, bool backward);

}  // namespace hydra::train
