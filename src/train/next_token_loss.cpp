// Counted positions (method.md section 6): KL and CE are sums over rows that have a next token, divided by the global
// number of such rows.

#include "next_token_loss.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace hydra::train {

at::Tensor counted_rows(const DeviceBatch& batch) {
  const at::Tensor rows = at::nonzero(batch.labels >= 0).squeeze(1);
  return rows.size(0) == batch.labels.size(0) ? at::Tensor() : rows;
}

at::Tensor rows_of(const at::Tensor& values, const at::Tensor& rows) {
  return rows.defined() ? values.index_select(0, rows) : values;
}

StageLoss next_token_loss(const at::Tensor& student_hidden, const at::Tensor& student_head,
                          const at::Tensor& teacher_hidden, const at::Tensor& teacher_head, const DeviceBatch& batch,
                          const at::Tensor& rows, double divisor, const ops::LossOptions& options, bool backward) {
  const bool distilling = options.kl_weight != 0.0;
  StageLoss result;
  if (rows.defined() && rows.size(0) == 0) {
    result.loss = at::zeros({}, student_hidden.options().dtype(at::kDouble).requires_grad(false));
    result.ce = result.loss;
    result.kl = distilling ? result.loss : at::Tensor();
    return result;
  }
  const ops::LossSums sums =
      ops::chunked_loss(rows_of(student_hidden, rows), student_head, distilling ? teacher_hidden : at::Tensor(),
                        distilling ? teacher_head : at::Tensor(), rows_of(batch.labels, rows), divisor, options);
  if (backward) {
    torch::autograd::backward({sums.total}, {});
  }
  result.loss = sums.total.detach().to(at::kDouble);
  result.ce = sums.ce / divisor;
  result.kl = distilling ? sums.kl / divisor : at::Tensor();
  return result;
}

}  // namespace hydra::train
