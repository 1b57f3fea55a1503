#pragma once
// Model FLOPs of a step, for TFLOP/s and MFU: 2 per multiply-add, causal halves, nothing for recomputation by
// activation checkpointing. Linear attention counts as its chunked algorithm at C = 64 does:
// 8 C d + 6 d^2 forward and 20 C d + 14 d^2 backward per token and head.

#include <cstdint>

namespace hydra::metrics {

// Sums over all layers of one model.
struct FlopsShape {
  double attention_parameters = 0;  // entries of the attention sublayers' matrices
  double mlp_parameters = 0;
  double head_parameters = 0;  // V D
  double fa_heads = 0, gdn_heads = 0;
  double head_dim = 0;
  double hidden = 0;  // D
};

// FLOPs per token; `context` is the length of the sequences (mean attended length (context + 1) / 2).
double forward_flops(const FlopsShape& model, double context, bool with_head);
// Teacher forward without its head; student attention forward and backward for given inputs.
double align_flops(const FlopsShape& student, const FlopsShape& teacher, double context);
// Teacher forward; student forward and backward of everything.
double distill_flops(const FlopsShape& student, const FlopsShape& teacher, double context);
// Student forward and backward of everything.
double long_context_flops(const FlopsShape& student, double context);

// Share of the peak that tokens/s of a stage reach. peak_flops: of one device; 0 (unknown): result 0.
double model_flops_utilisation(double flops_per_token, double tokens_per_second, double peak_flops, int devices);

}  // namespace hydra::metrics
