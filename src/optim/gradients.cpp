#include "hydrahead/optim/gradients.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra::optim {
namespace {

constexpr std::size_t kRunning = 2;  // reductions whose whole gradients exist at a time, if they are sharded

}  // namespace

Gradients::Gradients(FlatParameters& parameters, bool sharded, bool first_layer_first, dist::Communicator& communicator)
    : parameters_(parameters),
      communicator_(communicator),
      sharded_(sharded && communicator.size() > 1),
      states_(parameters.units().size()) {
  for (std::size_t unit = 0; unit < states_.size(); ++unit) {
    order_.push_back(unit);
    const FlatUnit& flat = parameters_.units()[unit];
    const at::TensorOptions options = flat.master.options();
    if (!sharded_) {
      states_[unit].whole = at::zeros({flat.size}, options);
    }
    states_[unit].part = alone() ? states_[unit].whole : at::empty({flat.size / communicator_.size()}, options);
  }
  // What comes before the first layer is complete last in any case.
  const auto begin = std::find_if(order_.begin(), order_.end(),
                                  [&](std::size_t unit) { return parameters_.units()[unit].layer >= 0; });
  if (!first_layer_first) {
    std::reverse(begin, order_.end());
  }
  std::rotate(order_.begin(), begin, order_.end());
  bind_views();
}

Gradients::~Gradients() {
  for (const TrainedParameter& parameter : parameters_.parameters()) {
    parameter.tensor->mutable_grad().reset();
  }
}

void Gradients::bind_views() {
  for (std::size_t unit = 0; unit < states_.size() && !sharded_; ++unit) {
    for (const FlatUnit::Member& member : parameters_.units()[unit].members) {
      parameters_.parameters()[member.parameter].tensor->mutable_grad() = parameters_.view(member, states_[unit].whole);
    }
  }
}

void Gradients::begin_step() { first_micro_batch_ = true; }

void Gradients::begin_micro_batch() {
  const bool fresh = first_micro_batch_ || !alone();  // one rank adds up its micro-batches in place
  for (UnitState& state : states_) {
    if (fresh && state.whole.defined()) {
      state.whole.zero_();
    }
  }
}

void Gradients::layer_done(std::int64_t layer) {
  for (std::size_t unit = 0; unit < states_.size(); ++unit) {
    states_[unit].ready = states_[unit].ready || (parameters_.units()[unit].layer == layer && layer >= 0);
  }
  start_ready_units();
}

void Gradients::end_micro_batch() {
  for (UnitState& state : states_) {
    state.ready = true;
  }
  start_ready_units();
  while (!running_.empty() && !sharded_) {  // the next backward pass adds to the same buffers
    finish_oldest();
  }
  started_ = 0;
  first_micro_batch_ = false;
  for (UnitState& state : states_) {
    state.ready = false;
  }
}

void Gradients::start_ready_units() {
  const at::NoGradGuard no_grad;
  for (; started_ < order_.size() && states_[order_[started_]].ready; ++started_) {
    start(order_[started_]);
  }
}

void Gradients::start(std::size_t unit) {
  const at::Tensor whole = collect(unit);
  if (alone()) {
    return;
  }
  const at::Tensor output = first_micro_batch_ ? states_[unit].part : at::empty_like(states_[unit].part);
  running_.push_back({unit, whole, output, communicator_.start_reduce_scatter(output, whole)});
  while (sharded_ && running_.size() > kRunning) {
    finish_oldest();
  }
}

void Gradients::finish_oldest() {
  const at::NoGradGuard no_grad;
  const Reduction reduction = std::move(running_.front());
  running_.pop_front();
  reduction.wait();
  UnitState& state = states_[reduction.unit];
  if (!reduction.output.is_same(state.part)) {
    state.part.add_(reduction.output);
  }
}

// The whole gradient of a unit on this rank, in one piece. Sharded: backward left a tensor a parameter, none for one
// that it did not reach; they are copied and dropped.
at::Tensor Gradients::collect(std::size_t unit) {
  const FlatUnit& flat = parameters_.units()[unit];
  at::Tensor whole = sharded_ ? at::empty({flat.size}, flat.master.options()) : states_[unit].whole;
  for (std::size_t i = 0; i < flat.members.size(); ++i) {
    const FlatUnit::Member& member = flat.members[i];
    const TrainedParameter& parameter = parameters_.parameters()[member.parameter];
    at::Tensor target = parameters_.view(member, whole);
    at::Tensor& gradient = parameter.tensor->mutable_grad();
    if (!sharded_) {
      HYDRA_CHECK(gradient.defined() && gradient.data_ptr() == target.data_ptr(), "the gradient of ", parameter.name,
                  " left the flat buffer");
      continue;
    }
    gradient.defined() ? target.copy_(gradient) : target.zero_();
    gradient.reset();
    const std::int64_t end = member.offset + target.numel();
    const std::int64_t next = i + 1 < flat.members.size() ? flat.members[i + 1].offset : flat.size;
    whole.narrow(0, end, next - end).zero_();  // padding
  }
  return whole;
}

void Gradients::end_step() {
  while (!running_.empty()) {
    finish_oldest();
  }
  if (alone() || parameters_.parts() > 1) {
    return;
  }
  std::vector<dist::Wait> waits;
  for (const UnitState& state : states_) {
    waits.push_back(communicator_.start_all_gather(state.whole, state.part));
  }
  for (const dist::Wait& wait : waits) {
    wait();
  }
}

at::Tensor Gradients::of_master(std::size_t unit) const {
  return parameters_.parts() > 1 ? states_[unit].part : states_[unit].whole;
}

GradientCheck check_gradients(const Gradients& gradients, const FlatParameters& parameters, double clip,
                              dist::Communicator& communicator) {
  const at::NoGradGuard no_grad;
  // Two levels, so that the fp32 rounding error does not grow with the number of parameters.
  std::vector<at::Tensor> block_norms;
  for (std::size_t unit = 0; unit < parameters.units().size(); ++unit) {
    block_norms.push_back(at::linalg_vector_norm(gradients.part(unit).view({-1, kNormBlock}), 2, at::IntArrayRef{1}));
  }
  const at::Tensor square = at::cat(block_norms).to(at::kDouble).square().sum(0, /*keepdim=*/true);
  at::Tensor squares = at::empty({communicator.size()}, square.options());
  communicator.start_all_gather(squares, square)();
  GradientCheck check;
  check.norm = squares.sum().sqrt().to(at::kFloat);
  check.non_finite = check.norm.isfinite().logical_not().to(at::kFloat);
  check.divisor = clip > 0 ? (check.norm / clip).clamp_min(1.0) : at::ones_like(check.norm);
  return check;
}

}  // namespace hydra::optim
