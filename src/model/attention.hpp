#pragma once
// Inside of the attention sublayer: what its branches share. One file a branch: teacher_attention.cpp, fa_branch.cpp
// (method.md 4.1), gdn_branch.cpp (4.2); fusion.cpp joins them (4.3); hydra_layer.cpp calls them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/model/decode_state.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/ops/head_output.hpp"

namespace hydra::model {

// The rows that a sublayer works on. With a cache they continue its sequences and are appended to it.
struct AttentionRows {
  const ops::Sequences& sequences;
  const RotaryTables& tables;
  bool log_scale = false;
  LayerState* cache = nullptr;
  at::Tensor wanted{};  // with a cache: [S] the last row of each sequence, the only one to form an output for, or all
};

// Projections that both branches read under `branch_weights: shared`: [N, heads, d], else undefined.
struct SharedProjections {
  at::Tensor q, k, v;
};

SharedProjections shared_projections(const HybridAttention& attention, const at::Tensor& x, std::int64_t head_dim);

// A branch's heads in packed order, and the logits of its output gate.
using BranchOutput = ops::BranchHeads;

// O_h [N, H, d] of the unmodified teacher.
at::Tensor teacher_heads(const Model& model, std::int64_t layer, const at::Tensor& x, const AttentionRows& rows);
BranchOutput fa_branch(const Model& model, std::int64_t layer, const at::Tensor& x, const SharedProjections& shared,
                       const AttentionRows& rows);
BranchOutput gdn_branch(const Model& model, std::int64_t layer, const at::Tensor& x, const SharedProjections& shared,
                        const AttentionRows& rows);
// y [N, H, d] in original head order; the output of a branch without heads is undefined.
at::Tensor fuse_branches(const Model& model, std::int64_t layer, const at::Tensor& x, const BranchOutput& fa,
                         const BranchOutput& gdn);

// Causal attention of the rows among themselves, or with a cache over all positions so far.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::vector<std::int64_t>& kv_index, const AttentionRows& rows);

// The wanted ones of the rows x [N, ...].
at::Tensor wanted_rows(const at::Tensor& x, const AttentionRows& rows);
// x W^T + bias cut into heads: [N, D] -> [N, heads, d].
at::Tensor project_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t head_dim);
// The type of statistics, gates' logits and decays: fp32, or fp64 for fp64 activations.
at::ScalarType statistics_type(const at::Tensor& x);

}  // namespace hydra::model
