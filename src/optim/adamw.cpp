#include "hydrahead/optim/adamw.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "hydrahead/base/error.hpp"

namespace hydra::optim {
namespace {

constexpr const char* kStep = "step";

}  // namespace

AdamW::AdamW(const FlatParameters& parameters, const OptimizerConfig& config)
    : config_(config), parameters_(parameters) {
  for (const FlatUnit& unit : parameters_.units()) {
    moments_.push_back({at::zeros_like(unit.master), at::zeros_like(unit.master)});
  }
  step_ = at::zeros({}, moments_.front().first.options().dtype(at::kFloat));
}

void AdamW::begin_step(const GradientCheck& check) {
  const at::NoGradGuard no_grad;
  step_.add_(1.0 - check.non_finite);
}

void AdamW::update(std::size_t index, const at::Tensor& gradient, double rate, const GradientCheck& check) {
  const at::NoGradGuard no_grad;
  const FlatUnit& unit = parameters_.units()[index];
  HYDRA_CHECK(gradient.sizes() == unit.master.sizes(), "gradient ", gradient.sizes(), " for ", unit.master.sizes());
  for (const UpdateRun& run : unit.runs) {
    const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, run.begin, run.end - run.begin); };
    at::_fused_adamw_({part(unit.master)}, {part(gradient)}, {part(moments_[index].first)},
                      {part(moments_[index].second)}, {}, {step_}, rate * run.rate_scale, config_.betas[0],
                      config_.betas[1], run.decay ? config_.weight_decay : 0.0, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, check.divisor, check.non_finite);
  }
}

template <class Each>
void AdamW::for_each_moment(int part, int parts, const Each& each) const {
  for (std::size_t index = 0; index < moments_.size(); ++index) {
    const FlatUnit& unit = parameters_.units()[index];
    // What this rank holds begins at `held` of the unit.
    const std::int64_t held = parameters_.part() * (unit.size / parameters_.parts());
    const std::int64_t size = unit.size / parts, begin = part * size;
    for (const FlatUnit::Member& member : unit.members) {
      const TrainedParameter& parameter = parameters_.parameters()[member.parameter];
      const std::int64_t first = std::max(begin, member.offset);
      const std::int64_t last = std::min(begin + size, member.offset + parameter.tensor->numel());
      if (first < last) {
        const std::int64_t offset = first - member.offset;
        each(parameter.name + ".exp_avg", offset, moments_[index].first.narrow(0, first - held, last - first));
        each(parameter.name + ".exp_avg_sq", offset, moments_[index].second.narrow(0, first - held, last - first));
      }
    }
  }
}

io::TensorSlices AdamW::state(int rank, int ranks) const {
  io::TensorSlices slices;
  for_each_moment(rank, ranks, [&](const std::string& name, std::int64_t offset, const at::Tensor& values) {
    slices.push_back({name, offset, values});
  });
  if (rank == 0) {
    slices.push_back({kStep, 0, step_.view({1})});
  }
  return slices;
}

void AdamW::load_state(const io::SliceReader& saved, const std::string& where) {
  const at::NoGradGuard no_grad;
  std::set<std::string> wanted{kStep};
  for (const TrainedParameter& parameter : parameters_.parameters()) {
    for (const char* moment : {".exp_avg", ".exp_avg_sq"}) {
      wanted.insert(parameter.name + moment);
      const std::int64_t found = saved.size(parameter.name + moment);
      HYDRA_REQUIRE(found == parameter.tensor->numel(), where, ": ", parameter.name, moment, " has ", found,
                    " elements, expected ", parameter.tensor->numel());
    }
  }
  for (const std::string& name : saved.names()) {
    HYDRA_REQUIRE(wanted.count(name) > 0, where, ": ", name, " belongs to no trained parameter");
  }
  for_each_moment(parameters_.part(), parameters_.parts(),
                  [&](const std::string& name, std::int64_t offset, at::Tensor values) {
                    values.copy_(saved.read(name, offset, offset + values.numel()));
                  });
  step_.copy_(saved.read(kStep, 0, 1).squeeze(0));
}

}  // namespace hydra::optim
