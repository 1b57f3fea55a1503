// Stage 2 (method.md section 6, Eq. 16): kl_weight KL(P_teacher || P_student) + ce_weight CE over the counted
// positions. The teacher runs without a graph; logits exist for a chunk of rows only.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/train/stage_loss.hpp"
#include "next_token_loss.hpp"

namespace hydra::train {

StageLoss distill_loss(const model::Model& student, const model::Model& teacher, const DeviceBatch& batch,
                       double divisor, const DistillOptions& options, bool backward) {
  const at::Tensor rows = counted_rows(batch);
  at::Tensor teacher_hidden;
  if (options.kl_weight != 0.0) {
    const at::NoGradGuard no_grad;
    teacher_hidden = rows_of(model::forward_hidden(teacher, batch.ids, batch.sequences), rows);
  }
  const at::AutoGradMode graph(backward);
  model::ForwardOptions forward;
  forward.recompute = options.recompute;
  const at::Tensor hidden = model::forward_hidden(student, batch.ids, batch.sequences, forward);
  const ops::LossOptions loss{.kl_weight = options.kl_weight,
                              .ce_weight = options.ce_weight,
                              .temperature = options.temperature,
                              .vocab_limit = options.vocab_limit,
                              .chunk_rows = options.chunk_rows};
  return next_token_loss(hidden, student.head, teacher_hidden, teacher.head, batch, rows, divisor, loss, backward);
}

}  // namespace hydra::train
