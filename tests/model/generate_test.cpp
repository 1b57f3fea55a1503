#include "hydrahead/model/generate.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "hydrahead/base/random.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/model/convert.hpp"
#include "hydrahead/model/decode_state.hpp"

namespace hydra::model {
namespace {

const std::string fixtures = HYDRA_FIXTURES;

std::vector<std::int32_t> random_ids(std::size_t count, std::uint32_t stream) {
  RandomStream random(11, stream);
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) {
    id = static_cast<std::int32_t>(random.below(4000));
  }
  return ids;
}

const Model& teacher() {
  static const Model model = load_model(fixtures + "/qwen3-nano", LoadOptions{});
  return model;
}

// Layers with mixed heads, without FA heads and with FA heads only; convolution on, so that every cache is in use.
const Model& hybrid() {
  static const Model model = [] {
    HybridConfig options;
    options.gdn.conv.kernel = 4;
    options.fa.log_scale.a = 50.0;
    const auto plan = make_plan(teacher().config.base, {{2, 3}, {0}, {2}, {}, {0, 1, 2, 3}, {1, 2}}, "test");
    Model made = convert(teacher(), plan, options, CalibrationTokens{{random_ids(300, 0)}}, 0).hybrid;
    // Moves the convolution off its identity start.
    RandomStream random(3, 1);
    for (Layer& layer : made.layers) {
      for (at::Tensor* taps : {&layer.hybrid.gdn.q_conv, &layer.hybrid.gdn.k_conv, &layer.hybrid.gdn.v_conv}) {
        if (taps->defined()) {
          taps->select(1, 1).add_(0.3 * random.uniform());
        }
      }
    }
    return made;
  }();
  return model;
}

at::Tensor as_ids(const std::vector<std::int32_t>& ids) {
  return at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong);
}

// The last hidden row after feeding `ids` in pieces of the given sizes (the last size repeats).
at::Tensor last_hidden(const Model& model, const std::vector<std::int32_t>& ids,
                       const std::vector<std::int64_t>& pieces) {
  DecodeState state = make_decode_state(model, 1, StateType::fp32);
  at::Tensor row;
  const at::Tensor all = as_ids(ids);
  std::size_t piece = 0;
  for (std::int64_t begin = 0; begin < all.size(0); ++piece) {
    const std::int64_t end = std::min(all.size(0), begin + pieces[std::min(piece, pieces.size() - 1)]);
    row = advance(model, state, all.slice(0, begin, end), {end - begin}, true);
    begin = end;
  }
  EXPECT_EQ(state.length[0], all.size(0));
  return row;
}

double relative(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

TEST(DecodeState, AnySplitOfAPromptGivesTheSameResult) {
  for (const Model* model : {&teacher(), &hybrid()}) {
    const auto ids = random_ids(211, 1);
    ForwardOptions options;
    options.log_scale = true;
    const auto sequences = ops::make_sequences({211}, at::kCPU);
    const at::Tensor expected = forward_hidden(*model, as_ids(ids), sequences, options).slice(0, 210, 211);
    for (const std::vector<std::int64_t>& pieces :
         std::vector<std::vector<std::int64_t>>{{211}, {1}, {64}, {63, 2, 1, 70}, {100, 1}, {3, 8, 200}}) {
      EXPECT_LT(relative(last_hidden(*model, ids, pieces), expected), 2e-5);
    }
  }
}

TEST(Generate, ABatchOfUnequalLengthsEqualsEachPromptAlone) {
  std::vector<std::vector<std::int32_t>> prompts{random_ids(37, 2), random_ids(120, 3), random_ids(1, 4),
                                                 random_ids(65, 5)};
  GenerateOptions options;
  options.max_new = 20;
  const auto together = generate(hybrid(), prompts, options);
  options.prefill_chunk = 50;  // prompts longer than a chunk take the chunked path
  EXPECT_EQ(generate(hybrid(), prompts, options), together);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    EXPECT_EQ(together[p].size(), 20u);
    EXPECT_EQ(generate(hybrid(), {prompts[p]}, options)[0], together[p]) << p;
  }
}

// With one thread a group, what is left over shared by all, and a sequence a thread in attention.
TEST(Generate, ThreadsDoNotChangeTheAnswer) {
  const int threads = at::get_num_threads();
  std::vector<std::vector<std::int32_t>> prompts;
  for (std::uint32_t p = 0; p < 5; ++p) {
    prompts.push_back(random_ids(90 + 7 * p, 20 + p));
  }
  GenerateOptions options;
  options.max_new = 12;
  options.prefill_chunk = 200;  // two prompts a group, three groups
  for (const Model* model : {&teacher(), &hybrid()}) {
    at::set_num_threads(1);
    const auto expected = generate(*model, prompts, options);
    at::set_num_threads(2);
    EXPECT_EQ(generate(*model, prompts, options), expected);
    request_stop();
    EXPECT_THROW(generate(*model, prompts, options), Interrupted);
    clear_stop_request();
  }
  at::set_num_threads(threads);
}

TEST(Generate, GreedyEqualsRepeatedFullForward) {
  std::vector<std::int32_t> ids = random_ids(40, 6);
  GenerateOptions options;
  options.max_new = 8;
  const auto found = generate(hybrid(), {ids}, options)[0];
  ForwardOptions forward;
  forward.log_scale = true;
  for (const std::int32_t token : found) {
    const auto n = static_cast<std::int64_t>(ids.size());
    const auto sequences = ops::make_sequences({n}, at::kCPU);
    const at::Tensor hidden = forward_hidden(hybrid(), as_ids(ids), sequences, forward);
    EXPECT_EQ(logits_of(hybrid(), hidden.slice(0, n - 1, n)).argmax().item<std::int64_t>(), token);
    ids.push_back(token);
  }
}

TEST(Generate, BudgetsStopIdsAndCallbacks) {
  const std::vector<std::vector<std::int32_t>> prompts{random_ids(10, 7), random_ids(12, 8)};
  GenerateOptions options;
  options.budgets = {3, 0};
  const auto limited = generate(hybrid(), prompts, options);
  EXPECT_EQ(limited[0].size(), 3u);
  EXPECT_TRUE(limited[1].empty());
  options.budgets = {};
  options.max_new = 10;
  options.stop_ids = {limited[0][1]};
  EXPECT_EQ(generate(hybrid(), prompts, options)[0].back(), limited[0][1]);
  options.stop_ids = {};
  int seen = 0;
  options.on_token = [&](std::size_t prompt, std::int32_t) { return prompt != 0 || ++seen < 2; };
  const auto stopped = generate(hybrid(), prompts, options);
  EXPECT_EQ(stopped[0].size(), 2u);
  EXPECT_EQ(stopped[1].size(), 10u);
}

TEST(Generate, SamplingDependsOnSeedPromptAndStepOnly) {
  const std::vector<std::vector<std::int32_t>> prompts{random_ids(10, 9), random_ids(15, 10)};
  GenerateOptions options;
  options.max_new = 12;
  options.temperature = 1.5;
  options.seed = 5;
  const auto first = generate(hybrid(), prompts, options);
  EXPECT_EQ(generate(hybrid(), prompts, options), first);
  EXPECT_EQ(generate(hybrid(), {prompts[0]}, options)[0], first[0]);
  options.seed = 6;
  EXPECT_NE(generate(hybrid(), prompts, options), first);
}

TEST(Generate, RefusesBadPromptsAndStopsOnASignal) {
  EXPECT_THROW(generate(hybrid(), {{}}, {}), UserError);
  EXPECT_THROW(generate(hybrid(), {{4096}}, {}), UserError);
  request_stop();
  EXPECT_THROW(generate(hybrid(), {{1, 2}}, {}), Interrupted);
  clear_stop_request();
}

TEST(DecodeState, HoldsKvOfTouchedGroupsOnly) {
  DecodeState state = make_decode_state(hybrid(), 1, StateType::fp32);
  advance(hybrid(), state, as_ids(random_ids(64, 12)), {64}, true);
  EXPECT_EQ(state.layers[0].k[0].size(1), 1);    // heads 2, 3 share group 1
  EXPECT_FALSE(state.layers[3].k[0].defined());  // no FA head
  EXPECT_FALSE(state.layers[4].gdn.defined());
  EXPECT_EQ(state.layers[5].k[0].size(1), 2);
}

}  // namespace
}  // namespace hydra::model
