#pragma once
// Which tensors a stage trains and which it leaves alone, and the proof that it did: checksums before and after.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/model/hydra_model.hpp"

namespace hydra::train {

struct TrainableSplit {
  std::vector<model::Parameter> trained, frozen;  // together: every tensor of the model
};

// Sets requires_grad of every parameter, and checks that it took effect: nothing touches it afterwards.
TrainableSplit split_parameters(model::Model& model, const std::function<bool(const model::Parameter&)>& trains);

// All parameters frozen: a teacher.
void freeze(model::Model& model);

std::int64_t element_count(const std::vector<model::Parameter>& parameters);

// Copies in host memory of the parameters that are wanted.
io::NamedTensors on_host(const std::vector<model::Parameter>& parameters,
                         const std::function<bool(const std::string& name)>& wanted);

// [{"name", "shape"}, ...]
Json tensor_list(const std::vector<model::Parameter>& parameters);

// SHA-256 of each tensor's bytes by name.
using Checksums = std::map<std::string, std::string>;
Checksums checksums(const std::vector<model::Parameter>& parameters);
// Throws, naming `what` and the first tensor that differs.
void require_unchanged(const Checksums& before, const std::vector<model::Parameter>& parameters,
                       const std::string& what);

}  // namespace hydra::train
