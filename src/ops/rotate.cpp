// Rotary embedding, half-split form (Qwen3): y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin. The backward pass is the
// rotation by the opposite angle, so only the tables are kept.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One pass over contiguous rows; ATen's loops over half heads are too short to be fast.
template <class T>
void rotate_rows(const T* x, const T* cos, const T* sin, T* y, std::int64_t rows, std::int64_t heads, std::int64_t half,
                 T sign) {
  at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * heads; i < end * heads; ++i) {
      const T* c = cos + i / heads * half;
      const T* s = sin + i / heads * half;
      const T* x1 = x + i * 2 * half;
      const T* x2 = x1 + half;
      T* y1 = y + i * 2 * half;
      for (std::int64_t j = 0; j < half; ++j) {
        y1[j] = x1[j] * c[j] - sign * x2[j] * s[j];
        y1[half + j] = x2[j] * c[j] + sign * x1[j] * s[j];
      }
    }
  });
}

// x [N, H, d] by the tables' angle (sign 1) or its opposite (-1).
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const auto type = statistics_type(x);
  const auto half = x.size(-1) / 2;
  auto y = at::empty(x.sizes(), x.options().dtype(type));
  if (x.is_cpu()) {
    AT_DISPATCH_FLOATING_TYPES(type, "rotate", [&] {
      const auto data = [type](const at::Tensor& t) { return t.to(type).contiguous(); };
      const auto rows = data(x), c = data(cos), s = data(sin);
      rotate_rows(rows.const_data_ptr<scalar_t>(), c.const_data_ptr<scalar_t>(), s.const_data_ptr<scalar_t>(),
                  y.mutable_data_ptr<scalar_t>(), x.size(0), x.size(1), half, static_cast<scalar_t>(sign));
    });
    return y.to(x.scalar_type());
  }
  const auto c = cos.to(type).unsqueeze(1);
  const auto s = sin.to(type).unsqueeze(1);
  const auto wide = x.to(type);
  const auto x1 = wide.narrow(-1, 0, half);
  const auto x2 = wide.narrow(-1, half, half);
  auto y1 = y.narrow(-1, 0, half);
  auto y2 = y.narrow(-1, half, half);
  at::mul_out(y1, x1, c).addcmul_(x2, s, -sign);
  at::mul_out(y2, x2, c).addcmul_(x1, s, sign);
  return y.to(x.scalar_type());
}

class Rotate : public torch::autograd::Function<Rotate> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotated(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    return {rotated(gradients[0], saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  HYDRA_CHECK(x.dim() == 3 && cos.dim() == 2 && cos.size(0) == x.size(0) && 2 * cos.size(1) == x.size(2) &&
                  sin.sizes() == cos.sizes(),
              "rotate: x ", x.sizes(), ", cos ", cos.sizes(), ", sin ", sin.sizes());
  return Rotate::apply(x, cos, sin);
}

}  // namespace hydra::ops
