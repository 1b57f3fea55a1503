// Stage 3 (method.md section 6): next-token cross-entropy of the student alone over the counted positions, with the log
// scale on the FA queries if asked for.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/train/stage_loss.hpp"
#include "next_token_loss.hpp"

namespace hydra::train {

StageLoss long_context_loss(const model::Model& student, const DeviceBatch& batch, double divisor, bool log_scale,
                            bool recompute, std::int64_t chunk_rows, bool backward) {
  const at::AutoGradMode graph(backward);
  model::ForwardOptions forward;
  forward.log_scale = log_scale;
  forward.recompute = recompute;
  const at::Tensor hidden = model::forward_hidden(student, batch.ids, batch.sequences, forward);
  const ops::LossOptions loss{.kl_weight = 0.0, .ce_weight = 1.0, .chunk_rows = chunk_rows};
  return next_token_loss(hidden, student.head, {}, {}, batch, counted_rows(batch), divisor, loss, backward);
}

}  // namespace hydra::train
