#pragma once
// Steps that the passes of patching share.

#include "hydrahead/select/patching.hpp"

namespace hydra::select {

// x + MLP_l(norm(x)), x [..., D]: the residual stream between a layer's attention and its end.
at::Tensor add_mlp(const model::Model& teacher, std::int64_t layer, const at::Tensor& middle);

// W_O[:, h] O_h of each head: [A, H, d] -> [H, A, D].
at::Tensor head_contributions(const model::Model& teacher, std::int64_t layer, const at::Tensor& heads);

// (m(base) - m) / (m(base) - m(source)) of margins [C], fp64 on the CPU; exactly 0 where nothing was `touched` [C]
// (rows of a product are not always rounded alike, so that an unchanged row alone would not give it).
at::Tensor as_effects(const PatchedPair& pair, const at::Tensor& margins, const at::Tensor& touched);

}  // namespace hydra::select
