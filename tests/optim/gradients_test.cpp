// Flat parameters and their gradients on one rank and on several.

#include "hydrahead/optim/gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "tests/optim/support_trained.hpp"

namespace hydra::optim {
namespace {

// A 16-bit model reads copies of the masters; its gradients are those of the masters' type, and small updates are not
// lost.
TEST(FlatParameters, CopiesFollowTheirMasters) {
  dist::run_thread_ranks(2, [](dist::Communicator& communicator) {
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients}) {
      Tensors tensors;
      const at::Tensor before = tensors.matrix.detach().clone(), vector = tensors.vector.detach().clone();
      FlatParameters parameters(tensors.parameters(), at::kBFloat16, shard != Shard::none, communicator);
      Gradients gradients(parameters, shard == Shard::gradients, false, communicator);
      AdamW optimizer(parameters, {});
      EXPECT_EQ(tensors.matrix.scalar_type(), at::kBFloat16);
      EXPECT_EQ(tensors.vector.scalar_type(), at::kFloat);
      EXPECT_TRUE(at::equal(tensors.matrix.detach(), before.to(at::kBFloat16)));
      for (int step = 0; step < 20; ++step) {
        gradients.begin_step();
        gradients.begin_micro_batch();
        const auto loss =
            tensors.matrix.to(at::kFloat).sum() + tensors.vector.sum() + tensors.slow.to(at::kFloat).sum();
        loss.backward();
        gradients.end_micro_batch();
        gradients.end_step();
        const GradientCheck check = check_gradients(gradients, parameters, 0.0, communicator);
        optimizer.begin_step(check);
        for (std::size_t unit = 0; unit < parameters.units().size(); ++unit) {
          EXPECT_EQ(gradients.of_master(unit).scalar_type(), at::kFloat);
          optimizer.update(unit, gradients.of_master(unit), 1e-5, check);
          parameters.publish(unit);
        }
      }
      parameters.wait_for_all();
      const auto masters = parameters.gather([](const std::string&) { return true; });
      for (const auto& [name, master] : masters) {
        if (name == "matrix") {
          EXPECT_NEAR((before - master).mean().item<double>(), 2e-4, 1e-6);  // 20 updates of the rate
          EXPECT_TRUE(at::equal(tensors.matrix.detach(), master.to(at::kBFloat16)));
        }
      }
      parameters.restore();
      EXPECT_EQ(tensors.matrix.scalar_type(), at::kFloat);
      EXPECT_NEAR((before - tensors.matrix.detach()).mean().item<double>(), 2e-4, 1e-6);
      EXPECT_NEAR((vector - tensors.vector.detach()).mean().item<double>(), 2e-4, 1e-6);
    }
  });
}

TEST(Gradients, BackwardAddsInPlaceAndAStrayGradientIsFound) {
  const auto solo = dist::make_solo_communicator();
  Trained trained(*solo);
  {
    Gradients& gradients = trained.gradients;
    gradients.begin_step();
    for (const double factor : {2.0, 3.0}) {
      gradients.begin_micro_batch();
      (trained.tensors.matrix * factor).sum().backward();
      gradients.end_micro_batch();
    }
    gradients.end_step();
    EXPECT_TRUE(at::equal(trained.tensors.matrix.grad(), at::full({7, 5}, 5.0)));
    EXPECT_DOUBLE_EQ(gradients.part(1).sum().item<double>(), 5.0 * 35);
    gradients.begin_step();
    gradients.begin_micro_batch();
    EXPECT_EQ(trained.tensors.matrix.grad().abs().max().item<float>(), 0.0f);
    trained.tensors.matrix.mutable_grad() = at::zeros({7, 5});
    EXPECT_THROW(gradients.end_micro_batch(), Error);
  }
}

// Layers that are reported, late, or not at all, and a rank without rows: the sums are the same.
TEST(Gradients, ReductionsDoNotDependOnReports) {
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients}) {
    dist::run_thread_ranks(3, [&](dist::Communicator& communicator) {
      Trained trained(communicator, {}, shard);
      trained.gradients.begin_step();
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
        trained.gradients.begin_micro_batch();
        if (communicator.rank() != 2) {
          trained.backward({at::full({7, 5}, 1.0), at::full({9}, 2.0), at::full({4, 4}, 3.0)});
          if (communicator.rank() == 0) {
            trained.gradients.layer_done(1);
            trained.gradients.layer_done(0);
          } else {
            trained.gradients.layer_done(0);
          }
        }
        trained.gradients.end_micro_batch();
      }
      trained.gradients.end_step();
      const double square = 35 * 36.0 + 9 * 144.0 + 16 * 324.0;  // every gradient six times
      const GradientCheck check = check_gradients(trained.gradients, trained.parameters, 0.0, communicator);
      EXPECT_NEAR(check.norm.item<double>(), std::sqrt(square), 1e-4);
    });
  }
}

TEST(GradientCheck, ALargeBufferHasAnAccurateNorm) {
  at::Tensor weight = at::zeros({3000, 1001}, at::kFloat).requires_grad_();
  const auto solo = dist::make_solo_communicator();
  FlatParameters parameters({{.name = "weight", .tensor = &weight}}, at::kFloat, false, *solo);
  Gradients gradients(parameters, false, false, *solo);
  gradients.begin_step();
  gradients.begin_micro_batch();
  (weight * 0.1).sum().backward();
  gradients.end_micro_batch();
  gradients.end_step();
  EXPECT_NEAR(check_gradients(gradients, parameters, 0.0, *solo).norm.item<double>(), 0.1 * std::sqrt(3003000.0), 1e-3);
  EXPECT_EQ(check_gradients(gradients, parameters, 0.0, *solo).divisor.item<float>(), 1.0f);
}

TEST(GradientCheck, OneRankWithNanStopsAllRanks) {
  dist::run_thread_ranks(2, [](dist::Communicator& communicator) {
    Trained trained(communicator);
    RandomStream random(5, 0);
    auto gradients = random_gradients(random, 1.0);
    if (communicator.rank() == 1) {
      gradients[2][0][0] = std::numeric_limits<float>::quiet_NaN();
    }
    EXPECT_EQ(trained.step(gradients, 0.1).non_finite.item<float>(), 1.0f) << communicator.rank();
  });
}

}  // namespace
}  // namespace hydra::optim
