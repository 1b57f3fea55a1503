// AdamW against a scalar fp64 loop written from the paper's formulas, and its state on several ranks.

#include "hydrahead/optim/adamw.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"
#include "tests/optim/support_trained.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::optim {
namespace {

struct Reference {
  explicit Reference(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors.values()) {
      const at::Tensor values = tensor.to(at::kDouble).contiguous();
      weights.emplace_back(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
      first.emplace_back(weights.back().size(), 0.0);
      second.emplace_back(weights.back().size(), 0.0);
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
  std::vector<bool> decay = {true, false, true};
  std::vector<double> scale = {1.0, 1.0, 0.25};
  int updates = 0;
  double norm = 0;
};

TEST(AdamW, EqualsTheFormulaWithGroupsAndClipping) {
  const OptimizerConfig config{.weight_decay = 0.1, .clip = 1.0};
  const auto solo = dist::make_solo_communicator();
  Trained trained(*solo, config);
  Reference reference(trained.tensors);
  RandomStream random(4, 0);
  for (int update = 0; update < 12; ++update) {
    const auto gradients = random_gradients(random, update % 2 == 0 ? 1.0 : 0.01);  // clipped and not
    const double rate = 0.01 / (1 + update);
    reference.step(gradients, rate, config);
    const GradientCheck check = trained.step(gradients, rate);
    EXPECT_NEAR(check.norm.item<double>(), reference.norm, 1e-5 * reference.norm);
  }
  const std::vector<at::Tensor> values = trained.tensors.values();
  for (std::size_t p = 0; p < values.size(); ++p) {
    for (std::int64_t i = 0; i < values[p].numel(); ++i) {
      EXPECT_NEAR(values[p].data_ptr<float>()[i], reference.weights[p][static_cast<std::size_t>(i)], 1e-5)
          << p << " " << i;
    }
  }
}

TEST(AdamW, NonFiniteGradientsChangeNothing) {
  const auto solo = dist::make_solo_communicator();
  Trained trained(*solo);
  RandomStream random(5, 0);
  trained.step(random_gradients(random, 1.0), 0.1);
  const auto state = [&] { return trained.optimizer.state(0, 1); };
  const at::Tensor before = trained.tensors.matrix.detach().clone(), moment = state()[0].values.clone();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto gradients = random_gradients(random, 1.0);
    gradients[1][3] = bad;
    EXPECT_EQ(trained.step(gradients, 0.1).non_finite.item<float>(), 1.0f);
  }
  EXPECT_TRUE(at::equal(before, trained.tensors.matrix.detach()));
  EXPECT_TRUE(at::equal(moment, state()[0].values));
  EXPECT_EQ(state().back().name, "step");
  EXPECT_EQ(state().back().values.item<float>(), 1.0f);
}

// Writes the state as `ranks` ranks would, and opens it.
class SavedState {
 public:
  explicit SavedState(const AdamW& optimizer, int ranks = 1) {
    for (int rank = 0; rank < ranks; ++rank) {
      add(optimizer.state(rank, ranks));
    }
  }
  void add(const io::TensorSlices& slices) {
    files_.push_back(dir_.path() / std::to_string(files_.size()));
    io::write_slices(files_.back(), slices);
  }
  io::SliceReader reader() const { return io::SliceReader(files_); }

 private:
  hydra::test::TempDir dir_;
  std::vector<std::filesystem::path> files_;
};

TEST(AdamW, StateContinuesBitForBitWhateverTheNumberOfWriters) {
  const auto solo = dist::make_solo_communicator();
  RandomStream random(6, 0);
  std::vector<std::vector<at::Tensor>> gradients;
  for (int update = 0; update < 7; ++update) {
    gradients.push_back(random_gradients(random, 1.0));
  }
  Trained straight(*solo);
  for (const auto& each : gradients) {
    straight.step(each, 0.01);
  }
  Trained first(*solo);
  for (int update = 0; update < 3; ++update) {
    first.step(gradients[static_cast<std::size_t>(update)], 0.01);
  }
  const SavedState saved(first.optimizer);
  Trained second(*solo);
  second.tensors.matrix.detach().copy_(first.tensors.matrix.detach());
  second.optimizer.load_state(saved.reader(), "memory");
  for (std::size_t update = 3; update < 7; ++update) {
    second.step(gradients[update], 0.01);
  }
  EXPECT_TRUE(at::equal(straight.tensors.matrix, second.tensors.matrix));
}

TEST(AdamW, AStateOfOtherParametersIsRefused) {
  const auto solo = dist::make_solo_communicator();
  Trained trained(*solo);
  const auto refusal = [&](const std::function<void(io::TensorSlices&)>& damage) {
    io::TensorSlices slices = trained.optimizer.state(0, 1);
    damage(slices);
    const hydra::test::TempDir dir;
    io::write_slices(dir.path() / "state", slices);
    return hydra::test::refusal([&] { trained.optimizer.load_state(io::SliceReader({dir.path() / "state"}), "here"); });
  };
  const auto expect_in = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_in(refusal([](auto& slices) { slices.erase(slices.begin()); }), "has -1 elements");
  expect_in(refusal([](auto& slices) { slices[0].values = slices[0].values.narrow(0, 0, 3); }), "has 3 elements");
  expect_in(refusal([](auto& slices) { slices[0].offset = 1; }), "begins at 1, expected 0");
  expect_in(refusal([](auto& slices) { slices.push_back({"other", 0, at::zeros({2})}); }), "no trained parameter");
  EXPECT_NE(refusal([](auto& slices) { slices.pop_back(); }), "");  // no step
}

// The same gradients on 1 to 4 ranks and all ways of sharding: bit-identical over `shard`, and a rank's part of the
// state fits whatever read it.
TEST(AdamW, ShardsGiveTheSameBits) {
  const OptimizerConfig config{.weight_decay = 0.1, .clip = 1.0};
  for (const int ranks : {2, 4}) {
    std::vector<std::vector<at::Tensor>> results;
    std::vector<std::string> states;
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients}) {
      std::vector<std::vector<at::Tensor>> values(static_cast<std::size_t>(ranks));
      std::vector<io::TensorSlices> slices(static_cast<std::size_t>(ranks));
      dist::run_thread_ranks(ranks, [&](dist::Communicator& communicator) {
        Trained trained(communicator, config, shard);
        RandomStream random(7, static_cast<std::uint32_t>(communicator.rank()));
        for (int update = 0; update < 5; ++update) {
          trained.step(random_gradients(random, 1.0), 0.01);
        }
        const auto rank = static_cast<std::size_t>(communicator.rank());
        for (const at::Tensor& tensor : trained.tensors.values()) {
          values[rank].push_back(tensor.clone());
        }
        for (const io::TensorSlice& slice : trained.optimizer.state(communicator.rank(), ranks)) {
          slices[rank].push_back({slice.name, slice.offset, slice.values.clone()});
        }
        EXPECT_EQ(trained.parameters.units()[0].master.numel() * trained.parameters.parts(),
                  trained.parameters.units()[0].size);
      });
      const hydra::test::TempDir dir;
      std::vector<std::filesystem::path> files;
      for (const auto& each : slices) {
        files.push_back(dir.path() / std::to_string(files.size()));
        io::write_slices(files.back(), each);
      }
      const io::SliceReader reader(files);
      results.push_back(values[0]);
      results.back().push_back(reader.read("matrix.exp_avg", 0, 35));
      results.back().push_back(reader.read("slow.exp_avg_sq", 0, 16));
      results.back().push_back(reader.read("step", 0, 1));
      for (const auto& each : values) {
        EXPECT_TRUE(at::equal(each[0], values[0][0]) && at::equal(each[2], values[0][2]));
      }
    }
    for (std::size_t shard = 1; shard < results.size(); ++shard) {
      for (std::size_t i = 0; i < results[0].size(); ++i) {
        EXPECT_TRUE(at::equal(results[0][i], results[shard][i])) << ranks << " ranks, shard " << shard << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace hydra::optim
