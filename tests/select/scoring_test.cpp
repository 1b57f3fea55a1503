// Scores over pairs on qwen3-nano: means, dropped pairs, sender rounds, resuming, ranks, and every method.

#include "hydrahead/select/scoring.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/scorers.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::select {
namespace {

const fs::path fixtures = HYDRA_FIXTURES;

const model::Model& teacher() {
  static const model::Model loaded = model::load_model(fixtures / "qwen3-nano", {});
  return loaded;
}

// A pair of random tokens with the two tokens to compare chosen so that the margin falls; reversed: so that it rises.
data::CounterfactualPair random_pair(const std::string& probe, const std::string& capability, int index,
                                     bool reversed) {
  data::CounterfactualPair pair{.id = probe + "/" + std::to_string(index),
                                .probe = probe,
                                .capability = capability,
                                .clean = {},
                                .corrupt = {},
                                .answer_size = 2,
                                .rows = {28, 29},
                                .answer = {},
                                .distractor = {},
                                .sources = {10, 11}};
  for (int i = 0; i < 30; ++i) {
    pair.clean.push_back(11 + (i * 97 + index * 1301) % 4000);
  }
  pair.corrupt = pair.clean;
  pair.corrupt[10] = 50 + index;
  pair.corrupt[11] = 1500 + index;
  const CapturedRun clean = capture_run(teacher(), pair.clean), corrupt = capture_run(teacher(), pair.corrupt);
  const auto logits = [&](const CapturedRun& run, std::int64_t row) {
    return model::logits_of(teacher(), ops::rms_norm(run.hidden.back()[row], teacher().norm, 1e-6));
  };
  for (const std::int64_t row : pair.rows) {
    const at::Tensor fall = logits(clean, row) - logits(corrupt, row);
    const auto most = fall.argmax().item<std::int32_t>(), least = fall.argmin().item<std::int32_t>();
    pair.answer.push_back(reversed ? least : most);
    pair.distractor.push_back(reversed ? most : least);
  }
  return pair;
}

std::vector<data::CounterfactualPair> pairs() {
  return {random_pair("one", "single", 0, false), random_pair("one", "single", 1, true),
          random_pair("one", "single", 2, false), random_pair("two", "multi", 3, false),
          random_pair("three", "general", 4, true)};
}

SelectConfig config_of(Method method) {
  SelectConfig config;
  config.method = method;
  config.min_margin = 0.1;
  return config;
}

std::vector<ProbeEffects> score(const SelectConfig& config, const fs::path& dir, const Json& settings = {{"a", 1}}) {
  const auto solo = dist::make_solo_communicator();
  return score_heads(teacher(), pairs(), config, dir, settings, *solo);
}

void expect_identical(const std::vector<ProbeEffects>& found, const std::vector<ProbeEffects>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].probe, expected[i].probe);
    EXPECT_EQ(found[i].pairs, expected[i].pairs);
    EXPECT_EQ(found[i].dropped, expected[i].dropped);
    EXPECT_TRUE(test::identical(found[i].receive, expected[i].receive));
    EXPECT_TRUE(test::identical(found[i].send_raw, expected[i].send_raw));
    EXPECT_TRUE(test::identical(found[i].attribution, expected[i].attribution));
  }
}

TEST(Scoring, MeansAreThoseOfTheKeptPairs) {
  const test::TempDir dir;
  const auto probes = score(config_of(Method::interp), dir.path());
  ASSERT_EQ(probes.size(), 3U);
  EXPECT_EQ(probes[0].capability, "single");
  EXPECT_EQ(probes[0].pairs, 2);
  EXPECT_EQ(probes[0].dropped, 1);
  EXPECT_EQ(probes[2].pairs, 0);  // a probe whose pairs are all dropped
  EXPECT_EQ(probes[2].dropped, 1);
  at::Tensor sum = at::zeros({6, 4}, at::kDouble), clipped = at::zeros({6, 4}, at::kDouble);
  for (const int index : {0, 2}) {
    const auto pair = pairs()[index];
    const Readout readout = make_readout(pair, 0.9, Metric::logit_diff, at::kCPU);
    const CapturedRun clean = capture_run(teacher(), pair.clean), corrupt = capture_run(teacher(), pair.corrupt);
    const auto m = [&](const CapturedRun& run) {
      return margin(teacher(), readout, run.hidden.back().index_select(0, readout.rows)).item<double>();
    };
    const at::Tensor effects = receiver_effects(teacher(), {clean, corrupt, readout, m(clean), m(corrupt)});
    sum += effects;
    clipped += effects.clamp(0, 1);
  }
  EXPECT_TRUE(test::close(probes[0].receive_raw, sum / 2, 1e-9));
  EXPECT_TRUE(test::close(probes[0].receive, clipped / 2, 1e-9));
  EXPECT_EQ(probes[0].pair_ids, (std::vector<std::string>{"one/0", "one/2"}));
  EXPECT_TRUE(test::identical(probes[0].pair_receive.mean(0), probes[0].receive_raw));
  EXPECT_TRUE(test::identical(probes[0].pair_send.clamp(0, 1).mean(0), probes[0].send));
  EXPECT_GT((probes[0].pair_send[0] - probes[0].pair_send[1]).abs().max().item<double>(), 1e-4);
  EXPECT_TRUE(probes[2].pair_ids.empty());
}

TEST(Scoring, ProbeThatKeepsFewPairsIsLeftOut) {
  const test::TempDir dir;
  SelectConfig config = config_of(Method::attribution);
  config.min_kept = 0.9;
  const auto probes = score(config, dir.path());
  EXPECT_EQ(probes[0].pairs, 0);  // two of three passed
  EXPECT_EQ(probes[0].dropped, 3);
  EXPECT_EQ(probes[0].receive.abs().max().item<double>(), 0.0);
  EXPECT_EQ(probes[1].pairs, 1);
}

// The second round has the first one's senders among its receivers.
TEST(Scoring, RoundsLetSendersBecomeReceivers) {
  SelectConfig config = config_of(Method::interp);
  config.threshold = 0.02;
  const test::TempDir one, two;
  config.sender_rounds = 1;
  const auto first = score(config, one.path());
  config.sender_rounds = 2;
  const auto second = score(config, two.path());
  EXPECT_TRUE(test::identical(first[0].receive_raw, second[0].receive_raw));
  EXPECT_GT(first[0].send_raw.abs().max().item<double>(), 1e-3);
  EXPECT_GT((first[0].send_raw - second[0].send_raw).abs().max().item<double>(), 1e-4);
  EXPECT_EQ(first[0].send_raw[5].abs().max().item<double>(), 0.0);  // nothing comes after the last layer
}

TEST(Scoring, StoppedRunGoesOnWhereItWas) {
  const test::TempDir whole, resumed;
  const auto expected = score(config_of(Method::interp), whole.path());
  score(config_of(Method::interp), resumed.path());
  fs::remove(resumed.path() / "two-3.safetensors");
  const auto kept = fs::last_write_time(resumed.path() / "one-0.safetensors");
  expect_identical(score(config_of(Method::interp), resumed.path()), expected);
  EXPECT_EQ(fs::last_write_time(resumed.path() / "one-0.safetensors"), kept);
  try {
    score(config_of(Method::interp), resumed.path(), {{"a", 2}});
    ADD_FAILURE() << "went on with other settings";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a: found 1, expected 2"), std::string::npos) << error.what();
  }
}

TEST(Scoring, AnyNumberOfRanksGivesTheSameBits) {
  const test::TempDir one;
  const auto expected = score(config_of(Method::interp), one.path());
  for (const int ranks : {2, 3}) {
    const test::TempDir dir;
    dist::run_thread_ranks(ranks, [&](dist::Communicator& communicator) {
      expect_identical(score_heads(teacher(), pairs(), config_of(Method::interp), dir.path(), {{"a", 1}}, communicator),
                       expected);
    });
  }
}

TEST(Scoring, EveryMethodGivesItsScorersValues) {
  const auto pair = pairs()[3];
  const Readout readout = make_readout(pair, 0.9, Metric::logit_diff, at::kCPU);
  const CapturedRun clean = capture_run(teacher(), pair.clean), corrupt = capture_run(teacher(), pair.corrupt);
  const auto m = [&](const CapturedRun& run) {
    return margin(teacher(), readout, run.hidden.back().index_select(0, readout.rows)).item<double>();
  };
  const PatchedPair patched{clean, corrupt, readout, m(clean), m(corrupt)};
  const std::vector<std::pair<Method, at::Tensor>> cases = {
      {Method::attribution, attribution(teacher(), patched)},
      {Method::ablation_zero, ablation(teacher(), patched, Ablation::zero)},
      {Method::ablation_mean, ablation(teacher(), patched, Ablation::mean)},
      {Method::retrieval_score, retrieval_score(teacher(), clean, readout, pair.sources)}};
  for (const auto& [method, expected] : cases) {
    const test::TempDir dir;
    const auto probes = score(config_of(method), dir.path());
    EXPECT_TRUE(test::close(probes[1].receive_raw, expected, 1e-9));
    EXPECT_FALSE(probes[1].send.defined());
    EXPECT_TRUE(test::close(probes[1].attribution, cases[0].second, 1e-9));
  }
}

}  // namespace
}  // namespace hydra::select
