#pragma once
// A teacher without some of its heads, for zero ablation and knockout curves (method.md 3.6, 3.7).

#include <cstdint>
#include <vector>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// heads: a list of query heads a layer. The columns of W_O that read them are zero in the result, so nothing of their
// outputs is left in any kind of pass; all other tensors are shared with `teacher`, which is unchanged.
Model with_heads_zeroed(const Model& teacher, const std::vector<std::vector<std::int64_t>>& heads);

}  // namespace hydra::model
