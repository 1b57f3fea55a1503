// AdamW and the gradient buffer against a scalar fp64 loop written from the paper's formulas.

#include "hydrahead/optim/adamw.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"

namespace hydra::optim {
namespace {

at::Tensor random_tensor(RandomStream& random, std::vector<std::int64_t> shape) {
  at::Tensor values = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<float>()[i] = static_cast<float>(random.normal());
  }
  return values;
}

// A matrix with decay, a vector without, and a matrix at another rate.
std::vector<OptimizedParameter> three_parameters() {
  RandomStream random(3, 0);
  return {{"matrix", random_tensor(random, {7, 5}).requires_grad_(), true, 1.0},
          {"vector", random_tensor(random, {9}).requires_grad_(), false, 1.0},
          {"slow", random_tensor(random, {4, 4}).requires_grad_(), true, 0.25}};
}

std::vector<at::Tensor> tensors(const std::vector<OptimizedParameter>& parameters) {
  std::vector<at::Tensor> result;
  for (const auto& parameter : parameters) {
    result.push_back(parameter.tensor);
  }
  return result;
}

struct Reference {
  explicit Reference(const std::vector<OptimizedParameter>& parameters) {
    for (const auto& parameter : parameters) {
      const at::Tensor values = parameter.tensor.detach().to(at::kDouble).contiguous();
      weights.emplace_back(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
      first.emplace_back(weights.back().size(), 0.0);
      second.emplace_back(weights.back().size(), 0.0);
      decay.push_back(parameter.decay);
      scale.push_back(parameter.rate_scale);
    }
  }
  void step(const std::vector<at::Tensor>& gradients, double rate, const OptimizerConfig& config) {
    ++updates;
    double square = 0;
    for (const at::Tensor& gradient : gradients) {
      for (std::int64_t i = 0; i < gradient.numel(); ++i) {
        square += std::pow(static_cast<double>(gradient.data_ptr<float>()[i]), 2);
      }
    }
    norm = std::sqrt(square);
    const double clip = norm > config.clip ? config.clip / norm : 1.0;
    for (std::size_t p = 0; p < weights.size(); ++p) {
      for (std::size_t i = 0; i < weights[p].size(); ++i) {
        const double g = clip * static_cast<double>(gradients[p].data_ptr<float>()[i]);
        double& w = weights[p][i];
        w -= rate * scale[p] * (decay[p] ? config.weight_decay : 0.0) * w;
        first[p][i] = config.betas[0] * first[p][i] + (1 - config.betas[0]) * g;
        second[p][i] = config.betas[1] * second[p][i] + (1 - config.betas[1]) * g * g;
        const double m = first[p][i] / (1 - std::pow(config.betas[0], updates));
        const double v = second[p][i] / (1 - std::pow(config.betas[1], updates));
        w -= rate * scale[p] * m / (std::sqrt(v) + config.eps);
      }
    }
  }
  std::vector<std::vector<double>> weights, first, second;
  std::vector<bool> decay;
  std::vector<double> scale;
  int updates = 0;
  double norm = 0;
};

void fill(const GradientBuffer& buffer, RandomStream& random, double size) {
  for (const at::Tensor& gradient : buffer.gradients()) {
    at::Tensor values = gradient;
    values.copy_(random_tensor(random, values.sizes().vec()) * size);
  }
}

TEST(AdamW, EqualsTheFormulaWithGroupsAndClipping) {
  const OptimizerConfig config{.weight_decay = 0.1, .clip = 1.0};
  const auto parameters = three_parameters();
  Reference reference(parameters);
  AdamW optimizer(parameters, config);
  GradientBuffer buffer(tensors(parameters));
  const auto solo = dist::make_solo_communicator();
  RandomStream random(4, 0);
  for (int update = 0; update < 12; ++update) {
    fill(buffer, random, update % 2 == 0 ? 1.0 : 0.01);  // clipped and not
    const double rate = 0.01 / (1 + update);
    reference.step(buffer.gradients(), rate, config);
    const GradientCheck check = check_gradients(buffer, config.clip, *solo);
    EXPECT_NEAR(check.norm.item<double>(), reference.norm, 1e-5 * reference.norm);
    optimizer.step(buffer.gradients(), rate, check);
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const at::Tensor values = parameters[p].tensor.detach();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      EXPECT_NEAR(values.data_ptr<float>()[i], reference.weights[p][static_cast<std::size_t>(i)], 1e-5)
          << p << " " << i;
    }
  }
}

TEST(AdamW, NonFiniteGradientsChangeNothing) {
  const auto parameters = three_parameters();
  AdamW optimizer(parameters, {});
  GradientBuffer buffer(tensors(parameters));
  const auto solo = dist::make_solo_communicator();
  RandomStream random(5, 0);
  fill(buffer, random, 1.0);
  optimizer.step(buffer.gradients(), 0.1, check_gradients(buffer, 1.0, *solo));
  std::vector<at::Tensor> before = {parameters[0].tensor.detach().clone(), optimizer.state()[0].second.clone()};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    fill(buffer, random, 1.0);
    at::Tensor gradient = buffer.gradients()[1];
    gradient[3] = bad;
    const GradientCheck check = check_gradients(buffer, 1.0, *solo);
    EXPECT_EQ(check.non_finite.item<float>(), 1.0f);
    optimizer.step(buffer.gradients(), 0.1, check);
  }
  EXPECT_TRUE(at::equal(before[0], parameters[0].tensor.detach()));
  EXPECT_TRUE(at::equal(before[1], optimizer.state()[0].second));
  EXPECT_EQ(optimizer.state().back().first, "step");
  EXPECT_EQ(optimizer.state().back().second.item<float>(), 1.0f);
}

TEST(AdamW, StateContinuesBitForBitAndIsChecked) {
  const auto run = [](int before_save, int after_save, bool reload) {
    const auto parameters = three_parameters();
    auto optimizer = std::make_unique<AdamW>(parameters, OptimizerConfig{});
    GradientBuffer buffer(tensors(parameters));
    const auto solo = dist::make_solo_communicator();
    RandomStream random(6, 0);
    for (int update = 0; update < before_save + after_save; ++update) {
      if (reload && update == before_save) {
        auto saved = optimizer->state();
        for (auto& [name, tensor] : saved) {
          tensor = tensor.clone();
        }
        optimizer = std::make_unique<AdamW>(parameters, OptimizerConfig{});
        optimizer->load_state(saved, "memory");
        saved.pop_back();
        EXPECT_THROW(optimizer->load_state(saved, "memory"), UserError);  // no step
        saved.emplace_back("step", at::zeros({2}));
        EXPECT_THROW(optimizer->load_state(saved, "memory"), UserError);  // wrong shape
        saved.back() = {"step", at::zeros({})};
        saved.emplace_back("other", at::zeros({}));
        EXPECT_THROW(optimizer->load_state(saved, "memory"), UserError);  // one too many
      }
      fill(buffer, random, 1.0);
      optimizer->step(buffer.gradients(), 0.01, check_gradients(buffer, 1.0, *solo));
    }
    return parameters[0].tensor.detach().clone();
  };
  EXPECT_TRUE(at::equal(run(3, 4, false), run(3, 4, true)));
}

TEST(GradientBuffer, BackwardAddsInPlaceAndAStrayGradientIsFound) {
  const auto parameters = three_parameters();
  at::Tensor weight = parameters[0].tensor;
  {
    GradientBuffer buffer(tensors(parameters));
    (weight * 2).sum().backward();
    (weight * 3).sum().backward();
    EXPECT_TRUE(at::equal(buffer.gradients()[0], at::full({7, 5}, 5.0)));
    EXPECT_DOUBLE_EQ(buffer.flat().sum().item<double>(), 5.0 * 35);
    buffer.check_views();
    buffer.zero();
    EXPECT_EQ(weight.grad().abs().max().item<float>(), 0.0f);
    weight.mutable_grad() = at::zeros({7, 5});
    EXPECT_THROW(buffer.check_views(), Error);
  }
  EXPECT_FALSE(weight.grad().defined());
}

TEST(GradientCheck, ALargeBufferHasAnAccurateNorm) {
  const at::Tensor weight = at::zeros({3000, 1001}, at::kFloat).requires_grad_();
  GradientBuffer buffer({weight});
  at::Tensor gradient = buffer.gradients()[0];
  gradient.fill_(0.1f);
  const auto solo = dist::make_solo_communicator();
  EXPECT_NEAR(check_gradients(buffer, 0.0, *solo).norm.item<double>(), 0.1 * std::sqrt(3003000.0), 1e-3);
  EXPECT_EQ(check_gradients(buffer, 0.0, *solo).divisor.item<float>(), 1.0f);
}

TEST(GradientCheck, OneRankWithNanStopsAllRanks) {
  dist::run_thread_ranks(2, [](dist::Communicator& communicator) {
    const at::Tensor weight = at::zeros({8}, at::kFloat).requires_grad_();
    GradientBuffer buffer({weight});
    if (communicator.rank() == 1) {
      at::Tensor gradient = buffer.gradients()[0];
      gradient[0] = std::numeric_limits<float>::quiet_NaN();
    }
    EXPECT_EQ(check_gradients(buffer, 1.0, communicator).non_finite.item<float>(), 1.0f) << communicator.rank();
  });
}

}  // namespace
}  // namespace hydra::optim
