#pragma once
// Random arguments of ops::gdn_inputs under every option, for the CPU and GPU tests.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/ops/gdn_inputs.hpp"
#include "tests/support/gradients.hpp"

namespace hydra::test {

struct GdnInputsCase {
  std::int64_t rows = 7, heads = 3, key_heads = 3, size = 16;
  bool norm = true, rope = true;
  double beta_scale = 1.0, norm_eps = 1e-6;
  double table_factor = 1.0;  // YaRN scales both tables
  bool fused = false;         // q, k, a, b are slices of one projection
  bool zero = false;          // q and k are zero

  std::string name() const {
    return "N " + std::to_string(rows) + ", H " + std::to_string(heads) + "/" + std::to_string(key_heads) + ", d " +
           std::to_string(size) + (norm ? ", norm" : "") + (rope ? ", rope" : "") + (fused ? ", fused" : "") +
           (zero ? ", zero" : "");
  }
};

struct GdnInputsArguments {
  Tensors x;  // q, k, a, b, q_norm, k_norm, A_log, dt_bias, b_bias
  at::Tensor cos, sin;
};

// fp64 on the CPU.
inline GdnInputsArguments gdn_inputs_arguments(const GdnInputsCase& c) {
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  GdnInputsArguments result;
  at::Tensor q = random({c.rows, c.heads, c.size}), k = random({c.rows, c.key_heads, c.size});
  if (c.zero) {
    q.zero_();
    k.zero_();
  }
  const at::Tensor a = random({c.rows, c.heads}) * 8, b = random({c.rows, c.heads}) * 2;
  result.x = {q, k, a, b, {}, {}, random({c.heads}) * 0.5, random({c.heads}) - 3, random({c.heads})};
  if (c.norm) {
    result.x[4] = random({c.size}) * 0.3 + 1;
    result.x[5] = random({c.size}) * 0.3 + 1;
  }
  if (c.rope) {
    const at::Tensor angle = (at::arange(c.rows, at::kDouble) * 13 + 5).unsqueeze(1) *
                             at::pow(1000.0, -at::arange(c.size / 2, at::kDouble) * 2 / static_cast<double>(c.size));
    result.cos = (angle.cos() * c.table_factor).to(at::kFloat);
    result.sin = (angle.sin() * c.table_factor).to(at::kFloat);
  }
  return result;
}

// Projections in `projections`, parameters in `parameters`; rounded to `rounded` before.
inline GdnInputsArguments moved(const GdnInputsCase& c, const GdnInputsArguments& from, at::Device device,
                                at::ScalarType projections, at::ScalarType parameters, at::ScalarType rounded) {
  GdnInputsArguments to = from;
  for (std::size_t i = 0; i < to.x.size(); ++i) {
    if (to.x[i].defined()) {
      to.x[i] = to.x[i].to(i < 4 ? rounded : at::kFloat).to(device, i < 4 ? projections : parameters);
    }
  }
  if (c.fused) {  // as slices of [N, (H + key_heads) d + 2 H]; 8 spare columns between
    const std::int64_t q = c.heads * c.size, k = c.key_heads * c.size;
    const at::Tensor all = at::zeros({c.rows, q + k + 8 + 2 * c.heads}, to.x[0].options());
    const Tensors slices{all.narrow(1, 0, q).view({c.rows, c.heads, c.size}),
                         all.narrow(1, q, k).view({c.rows, c.key_heads, c.size}), all.narrow(1, q + k + 8, c.heads),
                         all.narrow(1, q + k + 8 + c.heads, c.heads)};
    for (std::size_t i = 0; i < 4; ++i) {
      slices[i].copy_(to.x[i]);
      to.x[i] = slices[i];
    }
  }
  if (to.cos.defined()) {
    to.cos = to.cos.to(device);
    to.sin = to.sin.to(device);
  }
  return to;
}

using GdnInputsPath = decltype(&ops::gdn_inputs_aten);

inline Evaluation run_gdn_inputs(GdnInputsPath path, const GdnInputsCase& c, const GdnInputsArguments& arguments) {
  return evaluate(
      [&](const Tensors& x) {
        const ops::GdnInputs y = path(x[0], x[1], x[2], x[3], {x[4], x[5], x[6], x[7], x[8]}, arguments.cos,
                                      arguments.sin, c.norm_eps, c.beta_scale);
        return Tensors{y.q, y.k, y.g, y.beta};
      },
      arguments.x);
}

inline std::vector<GdnInputsCase> gdn_inputs_options() {
  std::vector<GdnInputsCase> all(8);
  all[1].norm = false;
  all[2].rope = false;
  all[3].norm = all[3].rope = false;
  all[4].key_heads = 1;
  all[4].beta_scale = 2.0;
  all[5].fused = true;
  all[6].table_factor = 1.3;
  all[6].norm_eps = 1e-3;
  all[7].zero = true;
  return all;
}

}  // namespace hydra::test
