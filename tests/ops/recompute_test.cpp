// Activation checkpointing gives bit-identical losses and gradients.
#include "hydrahead/ops/recompute.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hydrahead/ops/elementwise.hpp"
#include "tests/support/compare.hpp"

namespace hydra {
namespace {

struct TwoLayers {
  at::Tensor x, norm, gate, up, down;
};

TwoLayers two_layers() {
  at::manual_seed(7);
  const auto make = [](at::IntArrayRef shape) { return at::randn(shape, at::kFloat).requires_grad_(true); };
  return {make({9, 6}), make({6}), make({10, 6}), make({10, 6}), make({6, 10})};
}

at::Tensor loss_of(const TwoLayers& p, const at::Tensor& x, bool checkpoint, int* calls = nullptr) {
  const auto block = [&p, calls](const at::Tensor& h) {
    if (calls != nullptr) {
      ++*calls;
    }
    return h + ops::swiglu_mlp(ops::rms_norm(h, p.norm, 1e-6), p.gate, p.up, p.down);
  };
  auto h = x;
  for (int layer = 0; layer < 2; ++layer) {
    h = checkpoint ? ops::recompute(block, h) : block(h);
  }
  return h.square().sum();
}

TEST(Recompute, LossAndGradientsAreBitIdentical) {
  const auto plain = two_layers();
  const auto checkpointed = two_layers();
  int calls = 0;
  const auto a = loss_of(plain, plain.x, false);
  const auto b = loss_of(checkpointed, checkpointed.x, true, &calls);
  EXPECT_EQ(calls, 2);
  torch::autograd::backward({a}, {});
  torch::autograd::backward({b}, {});
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(test::identical(b.detach(), a.detach()));
  EXPECT_TRUE(test::identical(checkpointed.x.grad(), plain.x.grad()));
  EXPECT_TRUE(test::identical(checkpointed.norm.grad(), plain.norm.grad()));
  EXPECT_TRUE(test::identical(checkpointed.gate.grad(), plain.gate.grad()));
  EXPECT_TRUE(test::identical(checkpointed.down.grad(), plain.down.grad()));
}

TEST(Recompute, ParametersTrainUnderAFrozenInput) {
  const auto plain = two_layers();
  const auto checkpointed = two_layers();
  torch::autograd::backward({loss_of(plain, plain.x.detach(), false)}, {});
  torch::autograd::backward({loss_of(checkpointed, checkpointed.x.detach(), true)}, {});
  EXPECT_TRUE(test::identical(checkpointed.up.grad(), plain.up.grad()));
  EXPECT_FALSE(checkpointed.x.grad().defined());
}

TEST(Recompute, JustRunsWithoutGradients) {
  const auto p = two_layers();
  const at::NoGradGuard no_grad;
  const auto loss = loss_of(p, p.x, true);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(test::identical(loss, loss_of(p, p.x, false)));
}

}  // namespace
}  // namespace hydra
