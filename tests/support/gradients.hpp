#pragma once
// Values and gradients of a function of tensors by autograd, for comparing two implementations.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "tests/support/compare.hpp"

namespace hydra::test {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;  // several outputs

struct Evaluation {
  Tensors outputs, gradients;  // a gradient for each input; undefined where there is none
};

// The gradients of the sum over outputs of <output, weight>, with fixed weights in the outputs' types. Inputs are used
// as they are (strides and all) as leaves; undefined ones stay undefined.
inline Evaluation evaluate(const Function& f, const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) {
    leaves.push_back(x.defined() ? x.detach().requires_grad_(true) : x);
  }
  Evaluation result;
  const Tensors outputs = f(leaves);
  Tensors weights;
  for (const at::Tensor& y : outputs) {
    const at::Tensor angles = at::arange(y.numel(), y.options().dtype(at::kDouble).requires_grad(false)) * 1.7;
    weights.push_back((angles.sin() + 0.3).view(y.sizes()).to(at::kBFloat16).to(y.scalar_type()));  // exact in any type
    result.outputs.push_back(y.detach());
  }
  torch::autograd::backward(outputs, weights);
  for (const at::Tensor& leaf : leaves) {
    result.gradients.push_back(leaf.defined() ? leaf.grad() : leaf);
  }
  return result;
}

inline void expect_close(const Evaluation& actual, const Evaluation& expected, double tolerance,
                         double gradient_tolerance) {
  ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
  for (std::size_t i = 0; i < actual.outputs.size(); ++i) {
    EXPECT_TRUE(close(actual.outputs[i], expected.outputs[i], tolerance)) << "output " << i;
  }
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    if (expected.gradients[i].defined()) {
      EXPECT_TRUE(close(actual.gradients[i], expected.gradients[i], gradient_tolerance)) << "gradient of input " << i;
    }
  }
}

inline void expect_identical(const Evaluation& actual, const Evaluation& expected) {
  for (std::size_t i = 0; i < actual.outputs.size(); ++i) {
    EXPECT_TRUE(identical(actual.outputs[i], expected.outputs[i])) << "output " << i;
  }
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    if (expected.gradients[i].defined()) {
      EXPECT_TRUE(identical(actual.gradients[i], expected.gradients[i])) << "gradient of input " << i;
    }
  }
}

}  // namespace hydra::test
