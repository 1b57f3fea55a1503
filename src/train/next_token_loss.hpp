#pragma once
// What the two stages with next-token losses share.

#include <ATen/core/Tensor.h>

#include "hydrahead/ops/chunked_loss.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {

// The rows of `batch` whose next token is counted; undefined if all of them are.
at::Tensor counted_rows(const DeviceBatch& batch);
at::Tensor rows_of(const at::Tensor& values, const at::Tensor& rows);

// The loss of the counted rows, and its backward pass. Teacher tensors may be undefined (no KL term).
StageLoss next_token_loss(const at::Tensor& student_hidden, const at::Tensor& student_head,
                          const at::Tensor& teacher_hidden, const at::Tensor& teacher_head, const DeviceBatch& batch,
                          const at::Tensor& rows, double divisor, const ops::LossOptions& options, bool backward);

}  // namespace hydra::train
