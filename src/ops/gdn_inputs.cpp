// Choice of the path, and the ATen path.
#include "gdn_inputs.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

void check_arguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                     const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin) {
  HYDRA_CHECK(q.dim() == 3 && k.dim() == 3 && k.size(0) == q.size(0) && k.size(2) == q.size(2) &&
                  a.sizes() == q.sizes().slice(0, 2) && b.sizes() == a.sizes(),
              "gdn_inputs: q ", q.sizes(), ", k ", k.sizes(), ", a ", a.sizes(), ", b ", b.sizes());
  HYDRA_CHECK(parameters.q_norm.defined() == parameters.k_norm.defined(), "gdn_inputs: a norm for q or k alone");
  HYDRA_CHECK(parameters.A_log.numel() == q.size(1) && parameters.dt_bias.numel() == q.size(1) &&
                  parameters.b_bias.numel() == q.size(1),
              "gdn_inputs: ", q.size(1), " heads, A_log ", parameters.A_log.sizes(), ", dt_bias ",
              parameters.dt_bias.sizes(), ", b_bias ", parameters.b_bias.sizes());
  HYDRA_CHECK(cos.defined() == sin.defined(), "gdn_inputs: one of the two rotary tables");
}

at::Tensor direction(const at::Tensor& projected, const at::Tensor& norm, const at::Tensor& cos, const at::Tensor& sin,
                     double norm_eps) {
  at::Tensor y = norm.defined() ? rms_norm(projected, norm, norm_eps) : projected;
  y = cos.defined() ? rotate(y, cos, sin) : y;
  return l2_norm(y);
}

}  // namespace

GdnInputs gdn_inputs_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                          const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin,
                          double norm_eps, double beta_scale) {
  const at::ScalarType type = statistics_type(q);
  GdnInputs result;
  result.q = direction(q, parameters.q_norm, cos, sin, norm_eps);
  result.k = direction(k, parameters.k_norm, cos, sin, norm_eps);
  const at::Tensor decay_rate = parameters.A_log.to(type).exp();
  result.g = -decay_rate * at::softplus(a.to(type) + parameters.dt_bias.to(type));
  result.beta = at::sigmoid(b.to(type) + parameters.b_bias.to(type));
  if (beta_scale != 1.0) {
    result.beta = beta_scale * result.beta;
  }
  return result;
}

GdnInputs gdn_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& a, const at::Tensor& b,
                     const GdnParameters& parameters, const at::Tensor& cos, const at::Tensor& sin, double norm_eps,
                     double beta_scale) {
  check_arguments(q, k, a, b, parameters, cos, sin);
#if HYDRA_CUDA
  const at::ScalarType type = q.scalar_type();
  const bool one_type = k.scalar_type() == type && a.scalar_type() == type && b.scalar_type() == type;
  if (has_kernels(q) && one_type && q.size(2) % 2 == 0 && q.size(2) <= 256 && q.size(0) > 0) {
    return gdn_inputs_cuda(q, k, a, b, parameters, cos, sin, norm_eps, beta_scale);
  }
#endif
  return gdn_inputs_aten(q, k, a, b, parameters, cos, sin, norm_eps, beta_scale);
}

}  // namespace hydra::ops
