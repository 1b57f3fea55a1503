#pragma once
// Next-token losses from hidden states, in chunks of rows: no [rows, vocabulary] tensor outlives a chunk
// (method.md section 6, engineering.md A3). fp32 statistics.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydra::ops {

struct LossOptions {
  double kl_weight = 0.0;  // 0: no teacher needed
  double ce_weight = 1.0;
  double temperature = 1.0;      // tau: KL between softmax(z/tau), times tau^2
  std::int64_t vocab_limit = 0;  // columns from here on are left out on both sides; 0: all ("full")
  std::int64_t chunk_rows = 1024;
};

struct LossSums {
  // Differentiable scalar: (kl_weight tau^2 KL + ce_weight CE) summed over rows, divided by `divisor`; fp64.
  at::Tensor total;
  at::Tensor kl;  // scalar fp64, detached: sum over rows of KL(teacher || student), times tau^2, not divided
  at::Tensor ce;  // scalar fp64, detached: sum over rows of the cross-entropy, not divided
};

// student_hidden [M, D], student_head [V, D], teacher_hidden [M, D'] and teacher_head [V, D'] (undefined when
// kl_weight = 0), labels [M] int64; rows are the counted positions only. divisor: global number of counted rows.
// Gradients: student_hidden, student_head.
LossSums chunked_loss(const at::Tensor& student_hidden, const at::Tensor& student_head,
                      const at::Tensor& teacher_hidden, const at::Tensor& teacher_head, const at::Tensor& labels,
                      double divisor, const LossOptions& options);

// log softmax(hidden head^T)[row, label] for each row, fp32 [M], in chunks, no autograd.
at::Tensor token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& labels,
                          std::int64_t chunk_rows = 1024);

}  // namespace hydra::ops
