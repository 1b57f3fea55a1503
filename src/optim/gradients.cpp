#include "hydrahead/optim/gradients.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra::optim {
namespace {

constexpr std::int64_t kAlignment = 64;    // elements: a view starts on a cache line
constexpr std::int64_t kNormBlock = 1024;  // elements of one fp32 partial norm

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
  HYDRA_CHECK(!parameters_.empty(), "nothing is trained");
  std::int64_t size = 0;
  for (const at::Tensor& parameter : parameters_) {
    HYDRA_CHECK(parameter.requires_grad() && parameter.is_leaf() && parameter.is_contiguous(),
                "a trained parameter is no leaf");
    HYDRA_CHECK(parameter.dtype() == parameters_.front().dtype() && parameter.device() == parameters_.front().device(),
                "trained parameters of several types or devices");
    size += round_up(parameter.numel(), kAlignment);
  }
  flat_ = at::zeros({round_up(size, kNormBlock)}, parameters_.front().options().requires_grad(false));
  std::int64_t offset = 0;
  for (at::Tensor& parameter : parameters_) {
    views_.push_back(flat_.narrow(0, offset, parameter.numel()).view(parameter.sizes()));
    parameter.mutable_grad() = views_.back();
    offset += round_up(parameter.numel(), kAlignment);
  }
}

GradientBuffer::~GradientBuffer() {
  for (at::Tensor& parameter : parameters_) {
    parameter.mutable_grad().reset();
  }
}

void GradientBuffer::zero() { flat_.zero_(); }

void GradientBuffer::sum_over_ranks(dist::Communicator& communicator) {
  if (communicator.size() > 1) {
    communicator.all_reduce_sum(flat_);
  }
}

void GradientBuffer::check_views() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    HYDRA_CHECK(parameters_[i].grad().defined() && parameters_[i].grad().data_ptr() == views_[i].data_ptr(),
                "the gradient of parameter ", i, " left the flat buffer");
  }
}

GradientCheck check_gradients(const GradientBuffer& buffer, double clip, dist::Communicator& communicator) {
  const at::NoGradGuard no_grad;
  // Two levels, so that the fp32 rounding error does not grow with the number of parameters.
  const at::Tensor block_norms = at::linalg_vector_norm(buffer.flat().view({-1, kNormBlock}), 2, at::IntArrayRef{1});
  GradientCheck check;
  check.norm = block_norms.to(at::kDouble).square().sum().sqrt().to(at::kFloat);
  check.non_finite = check.norm.isfinite().logical_not().to(at::kFloat);
  if (communicator.size() > 1) {
    communicator.all_reduce_sum(check.non_finite);
    check.non_finite.clamp_max_(1.0);
  }
  check.divisor = clip > 0 ? (check.norm / clip).clamp_min(1.0) : at::ones_like(check.norm);
  return check;
}

}  // namespace hydra::optim
