#pragma once
// Three tensors that a test trains with gradients of its choice.

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/random.hpp"
#include "hydrahead/optim/adamw.hpp"

namespace hydra::optim {

inline at::Tensor random_tensor(RandomStream& random, std::vector<std::int64_t> shape) {
  at::Tensor values = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<float>()[i] = static_cast<float>(random.normal());
  }
  return values;
}

// A model of three tensors: a matrix with decay, a vector without, and a matrix at another rate in the next layer.
struct Tensors {
  Tensors() {
    RandomStream random(3, 0);
    matrix = random_tensor(random, {7, 5}).requires_grad_();
    vector = random_tensor(random, {9}).requires_grad_();
    slow = random_tensor(random, {4, 4}).requires_grad_();
  }
  std::vector<TrainedParameter> parameters() {
    return {{.name = "matrix", .tensor = &matrix, .layer = 0},
            {.name = "vector", .tensor = &vector, .layer = 0, .decay = false, .read_as_master = true},
            {.name = "slow", .tensor = &slow, .layer = 1, .rate_scale = 0.25}};
  }
  std::vector<at::Tensor> values() const { return {matrix.detach(), vector.detach(), slow.detach()}; }
  at::Tensor matrix, vector, slow;
};

// What a stage trains on one rank, with gradients that a test sets.
struct Trained {
  explicit Trained(dist::Communicator& ranks, const OptimizerConfig& options = {}, Shard shard = Shard::none)
      : communicator(ranks),
        config(options),
        parameters(tensors.parameters(), at::kFloat, shard != Shard::none, ranks),
        gradients(parameters, shard == Shard::gradients, false, ranks),
        optimizer(parameters, options) {}

  // One micro-batch and update with these gradients (of this rank).
  GradientCheck step(const std::vector<at::Tensor>& values, double rate) {
    gradients.begin_step();
    gradients.begin_micro_batch();
    backward(values);
    gradients.end_micro_batch();
    gradients.end_step();
    const GradientCheck check = check_gradients(gradients, parameters, config.clip, communicator);
    optimizer.begin_step(check);
    for (std::size_t unit = 0; unit < parameters.units().size(); ++unit) {
      optimizer.update(unit, gradients.of_master(unit), rate, check);
      parameters.publish(unit);
    }
    parameters.wait_for_all();
    return check;
  }
  void backward(const std::vector<at::Tensor>& values) {
    ((tensors.matrix * values[0]).sum() + (tensors.vector * values[1]).sum() + (tensors.slow * values[2]).sum())
        .backward();
  }

  Tensors tensors;
  dist::Communicator& communicator;
  OptimizerConfig config;
  FlatParameters parameters;
  Gradients gradients;
  AdamW optimizer;
};

inline std::vector<at::Tensor> random_gradients(RandomStream& random, double size) {
  return {random_tensor(random, {7, 5}) * size, random_tensor(random, {9}) * size,
          random_tensor(random, {4, 4}) * size};
}

}  // namespace hydra::optim
