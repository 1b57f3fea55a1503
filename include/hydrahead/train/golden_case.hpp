#pragma once
// Check of a hybrid against one case of reference outputs: forward outputs with and without the log scale, the losses
// of the three stages and every gradient. Used by `hydrahead verify` and by the tests.

#include "hydrahead/model/golden.hpp"

namespace hydra::train {

// Keys (B sequences of T tokens, P positions; all but the first two may be missing):
//   input_ids, labels [B, T] (every position is counted); positions [P]
//   logits, logits.scaled, teacher.logits [B, P, V] at the positions; ".scaled" = with the log scale
//   logprob[.scaled] [B, T] of the labels; argmax[.scaled] [B, T]
//   attn.<i>, attn.scaled.<i>, teacher.attn.<i> [B, T, D] attention outputs of the own forward; stage1.attn.<i> those
//   of the hybrid with the teacher's inputs stage1.loss, stage1.losses [L], stage2.loss, .kl, .ce, stage3.loss,
//   stage3_scaled.loss <stage>.grad.<tensor> whole, or for large tensors .norm and .samples [n], taken at flat[i numel
//   / n] init.<tensor>: values of the hybrid's own parameters
// The models' gradients and requires_grad flags are overwritten.
model::GoldenReport check_hybrid_case(model::Model& hybrid, model::Model& teacher, const model::GoldenFile& file);

}  // namespace hydra::train
