// Pairs of every probe that a config asks for, and whether a trained model tells their two prompts apart: qwen3-nano
// retrieves from up to 512 tokens.

#include "hydrahead/select/probes.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/patching.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/prose_corpora.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::select {
namespace {

using data::CounterfactualPair;
using data::NiahTask;

const std::filesystem::path nano = std::filesystem::path(HYDRA_FIXTURES) / "qwen3-nano";

const text::Tokenizer& tokenizer() {
  static const auto loaded = text::Tokenizer::load(nano);
  return loaded;
}

const data::Corpora& corpora() {
  static const data::Corpora loaded = test::prose_corpora(5000);
  return loaded;
}

std::vector<CounterfactualPair> make(const SelectConfig& config, std::int64_t window = 4096) {
  return make_pairs(config, window, 5, corpora(), tokenizer());
}

std::vector<std::string> ids_of(const std::vector<CounterfactualPair>& pairs) {
  std::vector<std::string> ids;
  for (const CounterfactualPair& pair : pairs) {
    ids.push_back(pair.id);
  }
  return ids;
}

TEST(Probes, StandInTheirOrderTheUsersOwnLast) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "own.jsonl")
      << R"({"clean": "Say 1:", "corrupt": "Say 2:", "answer+": " 1", "answer-": " 2"})";
  SelectConfig config;
  config.probes = {NiahTask::multikey_1, NiahTask::single_3};
  config.context = 320;
  config.pairs = 2;
  config.general_file = dir.path() / "own.jsonl";
  EXPECT_EQ(ids_of(make(config)),
            (std::vector<std::string>{"niah_multikey_1/320/0", "niah_multikey_1/320/1", "niah_single_3/320/0",
                                      "niah_single_3/320/1", "induction/0", "induction/1", "addition/0", "addition/1",
                                      "fact/0", "fact/1", "rows-own/0"}));
  config.general = GeneralProbes::none;
  config.general_file.clear();
  EXPECT_EQ(make(config).size(), 4u);
}

TEST(Probes, RowsBeyondTheWindowAreRefused) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "own.jsonl")
      << R"({"clean": "Say 1:", "corrupt": "Say 2:", "answer+": " 1", "answer-": " 2"})";
  SelectConfig config;
  config.probes = {};
  config.general = GeneralProbes::none;
  config.general_file = dir.path() / "own.jsonl";
  EXPECT_EQ(make(config, 64).size(), 1U);
  try {
    make(config, 3);
    ADD_FAILURE() << "three tokens were enough";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("own.jsonl: rows-own/0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("window of 3"), std::string::npos) << error.what();
  }
}

// They would count towards that probe's means and, among needles, its capability.
TEST(Probes, RowsUnderTheNameOfAnotherProbeAreRefused) {
  const test::TempDir dir;
  SelectConfig config;
  config.probes = {NiahTask::single_1};
  config.context = 256;
  config.pairs = 1;
  config.general_file = dir.path() / "own.jsonl";
  for (const char* name : {"niah_single_1", "fact"}) {
    std::ofstream(config.general_file)
        << R"({"clean": "Say 1:", "corrupt": "Say 2:", "answer+": " 1", "answer-": " 2", )"
        << "\"probe\": \"" << name << "\"}";
    test::expect_pieces(test::refusal([&] { make(config); }), {"own.jsonl", "probe name", name});
  }
  config.general = GeneralProbes::none;  // `fact` is free then
  EXPECT_EQ(make(config).size(), 2U);
}

TEST(Probes, WhatDoesNotFitIsLeftOutAndSaid) {
  SelectConfig config;
  config.probes = {NiahTask::multikey_1, NiahTask::single_1};
  config.context = 4096;
  config.pairs = 2;
  config.general = GeneralProbes::none;
  std::vector<CounterfactualPair> pairs;
  const std::string log = test::log_of([&] { pairs = make(config, 150); });
  test::expect_pieces(log, {"4096 tokens cut to the teacher's window of 150", "niah_multikey_1 at length 150"});
  EXPECT_EQ(ids_of(pairs), (std::vector<std::string>{"niah_single_1/150/0", "niah_single_1/150/1"}));
  test::expect_pieces(test::refusal([&] { make(config, 40); }), {"nothing is left", "niah_single_1 at length 40"});
}

// Eq. 9 with lambda = 0.9, written out over the logits of all of the answer's rows.
double margin_by_hand(const model::Model& teacher, const CapturedRun& run, const CounterfactualPair& pair) {
  const at::Tensor logits =
      model::logits_of(teacher, ops::rms_norm(run.hidden.back(), teacher.norm, teacher.config.base.rms_norm_eps));
  double sum = 0, weights = 0, weight = 1;
  for (std::int64_t row = logits.size(0) - pair.answer_size; row < logits.size(0); ++row, weight *= 0.9) {
    weights += weight;
    const auto at = std::find(pair.rows.begin(), pair.rows.end(), row);
    if (at != pair.rows.end()) {  // elsewhere the two tokens are the same
      const auto i = at - pair.rows.begin();
      sum += weight * (logits[row][pair.answer[i]] - logits[row][pair.distractor[i]]).item<double>();
    }
  }
  return sum / weights;
}

// In the clean prompt the model says the answer, in the corrupt one the distractor: by a lot, in every single pair.
TEST(Probes, ATeacherThatRetrievesTellsThePromptsApart) {
  const model::Model teacher = model::load_model(nano, {});
  SelectConfig config;
  config.pairs = 2;
  int copied = 0;
  for (const std::int64_t context : {256, 512}) {
    config.context = context;
    for (const CounterfactualPair& pair : make(config, 512)) {
      if (pair.probe == "addition" || pair.probe == "fact") {  // nano can do neither
        continue;
      }
      const CapturedRun run = capture_run(teacher, pair.clean);
      const double clean = margin_by_hand(teacher, run, pair);
      const double corrupt = margin_by_hand(teacher, capture_run(teacher, pair.corrupt), pair);
      EXPECT_GT(clean, 3) << pair.id;
      EXPECT_LT(corrupt, 3) << pair.id;
      EXPECT_GT(clean - corrupt, 5) << pair.id;
      const Readout readout = make_readout(pair, 0.9, Metric::logit_diff, at::kCPU);
      const at::Tensor rows = run.hidden.back().index_select(0, readout.rows);
      EXPECT_NEAR(margin(teacher, readout, rows).item<double>(), clean, 1e-3) << pair.id;
      ++copied;
    }
  }
  EXPECT_GE(copied, 2 * 2 * (5 + 1));
}

}  // namespace
}  // namespace hydra::select
