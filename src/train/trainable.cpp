#include "hydrahead/train/trainable.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::train {

TrainableSplit split_parameters(model::Model& model, const std::function<bool(const model::Parameter&)>& trains) {
  TrainableSplit split;
  for (const model::Parameter& parameter : model::parameters(model)) {
    (trains(parameter) ? split.trained : split.frozen).push_back(parameter);
  }
  for (const model::Parameter& parameter : split.frozen) {
    parameter.tensor->requires_grad_(false);
  }
  for (const model::Parameter& parameter : split.trained) {
    parameter.tensor->requires_grad_(true);
  }
  for (const model::Parameter& parameter : split.frozen) {
    HYDRA_CHECK(!parameter.tensor->requires_grad(), parameter.name, " shares memory with a trained tensor");
  }
  return split;
}

void freeze(model::Model& model) {
  for (const model::Parameter& parameter : model::parameters(model)) {
    parameter.tensor->requires_grad_(false);
  }
}

std::int64_t element_count(const std::vector<model::Parameter>& parameters) {
  std::int64_t count = 0;
  for (const model::Parameter& parameter : parameters) {
    count += parameter.tensor->numel();
  }
  return count;
}

io::NamedTensors on_host(const std::vector<model::Parameter>& parameters,
                         const std::function<bool(const std::string& name)>& wanted) {
  io::NamedTensors tensors;
  for (const model::Parameter& parameter : parameters) {
    if (wanted(parameter.name)) {
      tensors.emplace_back(parameter.name, parameter.tensor->detach().to(at::kCPU));
    }
  }
  return tensors;
}

Json tensor_list(const std::vector<model::Parameter>& parameters) {
  Json list = Json::array();
  for (const model::Parameter& parameter : parameters) {
    list.push_back({{"name", parameter.name}, {"shape", parameter.tensor->sizes().vec()}});
  }
  return list;
}

Checksums checksums(const std::vector<model::Parameter>& parameters) {
  Checksums sums;
  for (const model::Parameter& parameter : parameters) {
    const at::Tensor host = parameter.tensor->detach().cpu().contiguous();
    sums[parameter.name] = sha256_hex({static_cast<const char*>(host.data_ptr()), host.nbytes()});
  }
  return sums;
}

void require_unchanged(const Checksums& before, const std::vector<model::Parameter>& parameters,
                       const std::string& what) {
  const Checksums after = checksums(parameters);
  HYDRA_CHECK(after.size() == before.size(), what, ": ", before.size(), " tensors before, ", after.size(), " after");
  for (const auto& [name, sum] : before) {
    HYDRA_CHECK(after.at(name) == sum, what, ": ", name, " changed although it is not trained");
  }
}

}  // namespace hydra::train
