#include "hydrahead/model/zero_heads.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "hydrahead/base/error.hpp"

namespace hydra::model {

Model with_heads_zeroed(const Model& teacher, const std::vector<std::vector<std::int64_t>>& heads) {
  const Qwen3Config& base = teacher.config.base;
  HYDRA_CHECK(!teacher.is_hybrid() && static_cast<std::int64_t>(heads.size()) == base.layers,
              "heads are zeroed in a teacher, a list for each layer");
  const c10::NoGradGuard no_grad;
  Model model = teacher;
  for (std::int64_t layer = 0; layer < base.layers; ++layer) {
    if (heads[layer].empty()) {
      continue;
    }
    at::Tensor& o = model.layers[layer].teacher.o;
    o = o.clone();
    for (const std::int64_t head : heads[layer]) {
      HYDRA_CHECK(head >= 0 && head < base.heads, "no head ", head, " in layer ", layer);
      o.slice(1, head * base.head_dim, (head + 1) * base.head_dim).zero_();
    }
  }
  return model;
}

}  // namespace hydra::model
