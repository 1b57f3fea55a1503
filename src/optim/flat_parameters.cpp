#include "hydrahead/optim/flat_parameters.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "hydrahead/base/error.hpp"

namespace hydra::optim {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: no vector instruction crosses the end of a parameter

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The runs of [begin, end), a part of the unit, counted from `begin`.
std::vector<UpdateRun> runs_of(const FlatUnit& unit, const std::vector<TrainedParameter>& parameters,
                               std::int64_t begin, std::int64_t end) {
  std::vector<UpdateRun> runs;
  for (std::size_t i = 0; i < unit.members.size(); ++i) {
    const std::int64_t next = i + 1 < unit.members.size() ? unit.members[i + 1].offset : unit.size;
    const std::int64_t first = std::max(begin, unit.members[i].offset), last = std::min(end, next);
    if (first >= last) {
      continue;
    }
    const TrainedParameter& parameter = parameters[unit.members[i].parameter];
    const bool continues =
        !runs.empty() && runs.back().decay == parameter.decay && runs.back().rate_scale == parameter.rate_scale;
    if (continues) {
      runs.back().end = last - begin;
    } else {
      runs.push_back({first - begin, last - begin, parameter.decay, parameter.rate_scale});
    }
  }
  return runs;
}

}  // namespace

FlatParameters::FlatParameters(std::vector<TrainedParameter> parameters, at::ScalarType compute_type, bool sharded,
                               dist::Communicator& communicator)
    : parameters_(std::move(parameters)), communicator_(communicator), parts_(sharded ? communicator.size() : 1) {
  HYDRA_CHECK(!parameters_.empty(), "nothing is trained");
  const at::NoGradGuard no_grad;
  const at::Tensor& first = *parameters_.front().tensor;
  for (const TrainedParameter& parameter : parameters_) {
    const at::Tensor& tensor = *parameter.tensor;
    HYDRA_CHECK(tensor.requires_grad() && tensor.is_leaf() && tensor.is_contiguous(), parameter.name,
                " is trained but no leaf");
    HYDRA_CHECK(tensor.dtype() == first.dtype() && tensor.device() == first.device(),
                "trained parameters of several types or devices");
  }
  add_units();
  const at::TensorOptions master_options = first.options().requires_grad(false);
  for (FlatUnit& unit : units_) {
    fill(unit, master_options, compute_type);
  }
}

// A unit for the matrices of each layer. Vectors, which the model reads in the masters' type, are few: all of them
// share a unit that belongs to what comes before the first layer.
void FlatParameters::add_units() {
  std::map<std::pair<std::int64_t, bool>, FlatUnit> units;  // vectors first, then by layer
  constexpr std::int64_t kBeforeLayers = -1;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TrainedParameter& parameter = parameters_[i];
    const bool vector = parameter.read_as_master;
    const std::int64_t layer = vector ? kBeforeLayers : parameter.layer;
    FlatUnit& unit = units[{layer, !vector}];
    unit.layer = layer;
    unit.members.push_back({i, unit.size});
    unit.size += round_up(parameter.tensor->numel(), kAlignment);
  }
  for (auto& [key, unit] : units) {
    unit.size = round_up(unit.size, communicator_.size() * kNormBlock);
    units_.push_back(std::move(unit));
  }
}

// Copies the parameters into the unit's buffers and gives the model views of them.
void FlatParameters::fill(FlatUnit& unit, const at::TensorOptions& master_options, at::ScalarType compute_type) {
  const bool as_master = parameters_[unit.members.front().parameter].read_as_master;
  const at::ScalarType master_type = c10::typeMetaToScalarType(master_options.dtype());
  at::Tensor whole = at::zeros({unit.size}, master_options);
  for (const FlatUnit::Member& member : unit.members) {
    view(member, whole).copy_(*parameters_[member.parameter].tensor);
  }
  const std::int64_t part_size = unit.size / parts_;
  const at::Tensor own = whole.narrow(0, part() * part_size, part_size);
  const bool copies = !as_master && at::elementSize(compute_type) < at::elementSize(master_type);
  unit.values = copies ? whole.to(compute_type) : whole;
  unit.master = copies && parts_ > 1 ? own.clone() : own;
  unit.runs = runs_of(unit, parameters_, part() * part_size, (part() + 1) * part_size);
  for (const FlatUnit::Member& member : unit.members) {
    at::Tensor leaf = view(member, unit.values).detach().set_requires_grad(true);
    leaf.set_grad_dtype(master_type);
    *parameters_[member.parameter].tensor = leaf;
  }
}

at::Tensor FlatParameters::view(const FlatUnit::Member& member, const at::Tensor& flat) const {
  const at::Tensor& tensor = *parameters_[member.parameter].tensor;
  return flat.narrow(0, member.offset, tensor.numel()).view(tensor.sizes());
}

void FlatParameters::publish(std::size_t index) {
  const at::NoGradGuard no_grad;
  const FlatUnit& unit = units_[index];
  const std::int64_t part_size = unit.size / parts_;
  at::Tensor own = unit.values.narrow(0, part() * part_size, part_size);
  if (own.data_ptr() != unit.master.data_ptr()) {
    own.copy_(unit.master);
  }
  if (parts_ > 1) {
    gathers_.emplace_back(index, communicator_.start_all_gather(unit.values, own));
  }
}

void FlatParameters::wait_for(std::int64_t layer) {
  std::erase_if(gathers_, [&](const auto& gather) {
    const bool due = units_[gather.first].layer <= layer;
    if (due) {
      gather.second();
    }
    return due;
  });
}

void FlatParameters::wait_for_all() { wait_for(units_.back().layer); }

at::Tensor FlatParameters::whole_master(const FlatUnit& unit) {
  if (unit.master.scalar_type() == unit.values.scalar_type()) {
    return unit.values;
  }
  if (parts_ == 1) {
    return unit.master;
  }
  at::Tensor whole = at::empty({unit.size}, unit.master.options());
  communicator_.start_all_gather(whole, unit.master)();
  return whole;
}

io::NamedTensors FlatParameters::gather(const std::function<bool(const std::string& name)>& wanted) {
  const at::NoGradGuard no_grad;
  wait_for_all();
  io::NamedTensors tensors;
  for (const FlatUnit& unit : units_) {
    const at::Tensor whole = whole_master(unit);
    for (const FlatUnit::Member& member : unit.members) {
      const std::string& name = parameters_[member.parameter].name;
      if (wanted(name)) {
        tensors.emplace_back(name, view(member, whole).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
      }
    }
  }
  return tensors;
}

void FlatParameters::restore() {
  const at::NoGradGuard no_grad;
  wait_for_all();
  for (FlatUnit& unit : units_) {
    const at::Tensor whole = whole_master(unit);
    for (const FlatUnit::Member& member : unit.members) {
      at::Tensor& tensor = *parameters_[member.parameter].tensor;
      tensor = view(member, whole).detach().set_requires_grad(true);
    }
    unit.values.reset();
    unit.master.reset();
  }
}

}  // namespace hydra::optim
