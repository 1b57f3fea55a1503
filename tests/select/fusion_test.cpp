// Fusion against numbers worked out by hand from Eq. 11 and 12 (method.md 3.4).

#include "hydrahead/select/fusion.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/messages.hpp"

namespace hydra::select {
namespace {

using test::expect_pieces;
using test::refusal;

at::Tensor heads(const std::vector<double>& values) { return at::tensor(values, at::kDouble).view({2, 2}); }

// Two layers of two heads. The unclipped effects are given; the clipped ones follow as if every probe had one pair.
ProbeEffects probe(const std::string& name, const std::string& capability, const std::vector<double>& receive,
                   const std::vector<double>& send = {}, const std::vector<double>& attribution = {0, 0, 0, 0}) {
  ProbeEffects effects;
  effects.probe = name;
  effects.capability = capability;
  effects.pairs = 1;
  effects.receive_raw = heads(receive);
  effects.receive = effects.receive_raw.clamp(0, 1);
  if (!send.empty()) {
    effects.send_raw = heads(send);
    effects.send = effects.send_raw.clamp(0, 1);
  }
  effects.attribution = heads(attribution);
  return effects;
}

ProbeEffects without_pairs(const std::string& name, const std::string& capability) {
  ProbeEffects effects = probe(name, capability, {0, 0, 0, 0}, {0, 0, 0, 0});
  effects.pairs = 0;
  effects.dropped = 8;
  return effects;
}

void expect_heads(const at::Tensor& found, const std::vector<double>& expected) {
  EXPECT_TRUE(at::allclose(found, heads(expected), 0, 1e-12)) << found << "\nexpected\n" << heads(expected);
}

TEST(Fusion, OneCapabilityOfTwoProbes) {
  //                receiver            sender
  // head 0.0    0.8, 0.6 -> 0.7     0, 0            receives; kappa 2/2
  // head 0.1    0.1, 0   -> 0.05    0.4, 0.008 ->   sends 0.204; kappa 1/2 (0.008 is below 0.01)
  // head 1.0    -0.5, 0.2 -> 0.1    0.05, 0.05      receives 0.1 (clipped); kappa 2/2: |-0.5| counts
  // head 1.1    0.005, 0.005        0, 0            receives 0.005; kappa 0
  const FusedScores fused = fuse({probe("a", "single", {0.8, 0.1, -0.5, 0.005}, {0, 0.4, 0.05, 0}, {1, 2, 3, 4}),
                                  probe("b", "single", {0.6, 0.0, 0.2, 0.005}, {0, 0.008, 0.05, 0}, {3, 2, 1, 0})},
                                 {}, 0.01);
  ASSERT_EQ(fused.capabilities.size(), 1u);
  const CapabilityScore& single = fused.capabilities.front();
  EXPECT_EQ(single.name, "single");
  EXPECT_EQ(single.weight, 1.0);
  expect_heads(single.receive, {0.7, 0.05, 0.1, 0.005});
  expect_heads(single.send, {0, 0.204, 0.05, 0});
  EXPECT_TRUE(at::equal(single.sends, heads({0, 1, 0, 0}).to(at::kBool)));
  expect_heads(single.strength, {0.7, 0.204, 0.1, 0.005});
  expect_heads(single.kappa, {1, 0.5, 1, 0});
  expect_heads(single.score, {1, 0.102 / 0.7, 0.1 / 0.7, 0});
  expect_heads(fused.score, {1, 0.102 / 0.7, 0.1 / 0.7, 0});
  // Head 1.0 is the stronger receiver, though its unclipped mean, -0.15, is below the sender's.
  expect_heads(fused.effect, {0.7, 0.204, -0.15, 0.005});
  expect_heads(fused.attribution, {2, 2, 2, 2});
  EXPECT_TRUE(fused.left_out.empty());
}

TEST(Fusion, CapabilitiesAreNormalisedThenWeighted) {
  const std::vector<ProbeEffects> probes = {
      probe("a", "single", {0.5, 0.3, 0.1, 0.1}, {}, {1, 0, 0, 0}),    // minmax: 1, 0.5, 0, 0
      probe("b", "multi", {0.02, 0.02, 0.06, 0.1}, {}, {0, 0, 4, 0}),  // minmax: 0, 0, 0.5, 1
      probe("c", "general", {0.3, 0.3, 0.3, 0.3}),                     // constant: 0
  };
  const FusedScores equal = fuse(probes, {}, 0.01);
  ASSERT_EQ(equal.capabilities.size(), 3u);
  EXPECT_EQ(equal.capabilities[1].name, "multi");
  EXPECT_FALSE(equal.capabilities[1].send.defined());
  expect_heads(equal.capabilities[2].score, {0, 0, 0, 0});
  expect_heads(equal.score, {1.0 / 3, 0.5 / 3, 0.5 / 3, 1.0 / 3});
  expect_heads(equal.effect, {0.82 / 3, 0.62 / 3, 0.46 / 3, 0.5 / 3});
  const FusedScores weighted = fuse(probes, {{"single", 3}, {"general", 0}}, 0.01);
  expect_heads(weighted.score, {0.75, 0.375, 0.125, 0.25});
  expect_heads(weighted.effect, {(3 * 0.5 + 0.02) / 4, (3 * 0.3 + 0.02) / 4, (3 * 0.1 + 0.06) / 4, 0.1});
  expect_heads(weighted.attribution, {0.75, 0, 1, 0});
  EXPECT_EQ(weighted.capabilities.size(), 3u);  // of no weight, but shown
}

TEST(Fusion, ProbesAndCapabilitiesWithoutPairsDoNotCount) {
  const std::vector<ProbeEffects> alone = {probe("a", "single", {0.4, 0.2, 0, 0}, {0, 0, 0, 0})};
  std::vector<ProbeEffects> more = alone;
  more.push_back(without_pairs("b", "single"));  // as a probe of zeros it would halve kappa
  more.push_back(without_pairs("c", "general"));
  const FusedScores expected = fuse(alone, {}, 0.01), found = fuse(more, {}, 0.01);
  EXPECT_TRUE(at::equal(found.score, expected.score));
  EXPECT_TRUE(at::equal(found.effect, expected.effect));
  expect_heads(found.capabilities.front().kappa, {1, 1, 0, 0});
  EXPECT_EQ(found.capabilities.size(), 1u);
  EXPECT_EQ(found.left_out, (std::vector<std::string>{"general"}));
}

TEST(Fusion, ClippedAwayEffectsKeepTheRoleOfTheLargerMean) {
  const FusedScores fused = fuse({probe("a", "single", {0.5, -0.3, -0.1, 0}, {0, -0.1, -0.3, 0})}, {}, 0.01);
  expect_heads(fused.score, {1, 0, 0, 0});
  expect_heads(fused.effect, {0.5, -0.1, -0.1, 0});
  EXPECT_TRUE(at::equal(fused.capabilities.front().sends, heads({0, 1, 0, 0}).to(at::kBool)));
}

TEST(Fusion, TheThresholdItselfCounts) {
  const std::vector<ProbeEffects> probes = {probe("a", "single", {0.25, 0.125, 0, 0})};
  expect_heads(fuse(probes, {}, 0.125).capabilities.front().kappa, {1, 1, 0, 0});
  expect_heads(fuse(probes, {}, 0.2).capabilities.front().kappa, {1, 0, 0, 0});
  expect_heads(fuse(probes, {}, 0.2).score, {1, 0, 0, 0});
}

TEST(Fusion, NothingToScoreOnIsRefused) {
  expect_pieces(refusal([] { fuse({without_pairs("a", "single")}, {}, 0.01); }),
                {"no pair is left", "select.min_margin", "select.probes"});
  expect_pieces(refusal([] {
                  fuse({probe("a", "single", {1, 0, 0, 0})}, {{"single", 0}}, 0.01);
                }),
                {"select.weights", "above 0"});
}

}  // namespace
}  // namespace hydra::select
