#include "hydrahead/eval/perplexity.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hydrahead/base/files.hpp"
#include "hydrahead/eval/perplexity_run.hpp"
#include "hydrahead/io/safetensors.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::eval {
namespace {

const fs::path fixtures = HYDRA_FIXTURES;

const model::Model& teacher() {
  static const model::Model model = model::load_model(fixtures / "qwen3-nano", model::LoadOptions{});
  return model;
}

const model::Model& hybrid() {
  static const test::TempDir dir;
  static const model::Model model = [] {
    test::write_hybrid_nano(dir.path() / "hybrid");
    return model::load_model(dir.path() / "hybrid", model::LoadOptions{});
  }();
  return model;
}

struct Golden {
  data::Row row;
  std::vector<double> logprobs;  // of another implementation
};

Golden golden(const std::string& name) {
  const auto file = io::SafetensorsFile::open(fixtures / "golden/qwen3-nano.safetensors");
  const at::Tensor ids = file.load(name + ".input_ids"), logprobs = file.load(name + ".token_logprob").to(at::kDouble);
  Golden result;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    result.row.ids.push_back(static_cast<std::int32_t>(ids[i].item<std::int64_t>()));
    result.row.labels.push_back(i + 1 < ids.size(0) ? static_cast<std::int32_t>(ids[i + 1].item<std::int64_t>()) : -1);
  }
  result.row.lengths = {ids.size(0)};
  for (std::int64_t i = 0; i < logprobs.size(0); ++i) {
    result.logprobs.push_back(logprobs[i].item<double>());
  }
  return result;
}

PplResult measure(const model::Model& model, const std::vector<data::Row>& rows, std::int64_t chunk) {
  const auto solo = dist::make_solo_communicator();
  return measure_perplexity("test", model, rows, {.chunk = chunk}, *solo);
}

void expect_same(const PplResult& a, const PplResult& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  ASSERT_EQ(a.buckets.size(), b.buckets.size());
  for (std::size_t i = 0; i < a.buckets.size(); ++i) {
    EXPECT_EQ(a.buckets[i].begin, b.buckets[i].begin);
    EXPECT_EQ(a.buckets[i].tokens, b.buckets[i].tokens);
    EXPECT_NEAR(a.buckets[i].loss, b.buckets[i].loss, 1e-5);
  }
}

TEST(Perplexity, EqualsTheReferencesLogProbabilitiesByPosition) {
  const Golden random = golden("random");
  const PplResult result = measure(teacher(), {random.row}, 8192);
  ASSERT_EQ(result.tokens, 199);
  ASSERT_EQ(result.buckets.size(), 3u);
  const std::vector<std::pair<std::size_t, std::size_t>> bounds = {{0, 64}, {64, 128}, {128, 199}};
  double total = 0;
  for (std::size_t b = 0; b < bounds.size(); ++b) {
    double sum = 0;
    for (std::size_t i = bounds[b].first; i < bounds[b].second; ++i) {
      sum -= random.logprobs[i];
    }
    total += sum;
    const auto count = static_cast<double>(bounds[b].second - bounds[b].first);
    EXPECT_NEAR(result.buckets[b].loss, sum / count, 1e-4);
    EXPECT_EQ(result.buckets[b].tokens, static_cast<std::int64_t>(count));
  }
  EXPECT_EQ(result.buckets[2].begin, 128);
  EXPECT_EQ(result.buckets[2].end, 256);
  EXPECT_NEAR(result.loss, total / 199, 1e-4);
  EXPECT_FALSE(result.log_scale_a);
}

TEST(Perplexity, ChunksAndPackingDoNotChangeIt) {
  const std::vector<data::Row> rows = {golden("random").row, golden("prose").row, golden("niah").row};
  data::Row packed;
  for (const data::Row& row : rows) {
    packed.ids.insert(packed.ids.end(), row.ids.begin(), row.ids.end());
    packed.labels.insert(packed.labels.end(), row.labels.begin(), row.labels.end());
    packed.lengths.push_back(row.lengths[0]);
  }
  for (const model::Model* model : {&teacher(), &hybrid()}) {
    const PplResult whole = measure(*model, rows, 8192);
    EXPECT_EQ(whole.tokens, 199 + 65 + 157);
    expect_same(whole, measure(*model, {packed}, 8192));
    expect_same(whole, measure(*model, rows, 50));  // pieces of documents, with a decode state
    expect_same(whole, measure(*model, {packed}, 170));
  }
}

TEST(Perplexity, RanksShareTheRows) {
  const std::vector<data::Row> rows = {golden("random").row, golden("prose").row, golden("niah").row};
  const PplResult one = measure(teacher(), rows, 8192);
  dist::run_thread_ranks(2, [&](dist::Communicator& communicator) {
    expect_same(one, measure_perplexity("test", teacher(), rows, {}, communicator));
  });
}

TEST(Perplexity, UncountedLabelsAreLeftOut) {
  data::Row row = golden("random").row;
  const PplResult whole = measure(teacher(), {row}, 8192);
  for (std::size_t i = 64; i < row.labels.size(); ++i) {
    row.labels[i] = -1;
  }
  const PplResult part = measure(teacher(), {row}, 8192);
  ASSERT_EQ(part.buckets.size(), 1u);
  EXPECT_EQ(part.tokens, 64);
  EXPECT_NEAR(part.loss, whole.buckets[0].loss, 1e-6);
  row.labels.assign(row.labels.size(), -1);
  EXPECT_THROW(measure(teacher(), {row}, 8192), UserError);
}

TEST(Perplexity, LogScaleSweep) {
  const auto solo = dist::make_solo_communicator();
  const std::vector<data::Row> rows = {golden("random").row};
  const auto results = sweep_log_scale("test", hybrid(), rows, {}, {200, 500, 2000}, *solo);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(*results[0].log_scale_a, 200);
  EXPECT_NE(results[0].loss, results[2].loss);
  model::Model own = hybrid();
  own.config.hybrid->fa.log_scale.a = 2000;
  expect_same(results[2], measure(own, rows, 8192));
  EXPECT_THROW(sweep_log_scale("test", teacher(), rows, {}, {500}, *solo), UserError);
}

TEST(PerplexityRun, WritesFilesOnceAndRefusesOtherSettings) {
  test::TempDir dir;
  const auto solo = dist::make_solo_communicator();
  const std::vector<data::Row> rows = {golden("random").row};
  PplRun run{.out = dir.path() / "out", .name = "nano", .identity = {{"model_sha256", "x"}}, .context = 200};
  int loads = 0;
  const auto load = [&] {
    ++loads;
    return hybrid();
  };
  run.log_scale_a = {300, 600};
  const std::string table = run_perplexity(run, rows, load, *solo);
  EXPECT_NE(table.find("| position 64-128 |"), std::string::npos) << table;
  EXPECT_EQ(test::xml_problem(read_file(run.out / "ppl.svg")), "");
  const Json json = read_json_file((run.out / "ppl.json").string());
  EXPECT_EQ(json["results"].size(), 3u);
  EXPECT_NEAR(json["results"][0]["perplexity"].get<double>(), std::exp(json["results"][0]["loss"].get<double>()), 1e-9);
  run_perplexity(run, rows, load, *solo);
  EXPECT_EQ(loads, 1);
  run.context = 100;
  EXPECT_THROW(run_perplexity(run, rows, load, *solo), UserError);
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace hydra::eval
