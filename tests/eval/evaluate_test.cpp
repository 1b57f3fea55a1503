#include "hydrahead/eval/evaluate.hpp"

#include <gtest/gtest.h>

#include "tests/eval/niah_support.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::eval {
namespace {

using namespace test_support;

data::Row prose_row() {
  data::Row row;
  row.ids = tokenizer().encode("It was a quiet day, and the old friend of the house had seen the garden.");
  row.labels.assign(row.ids.begin() + 1, row.ids.end());
  row.labels.push_back(-1);
  row.lengths = {static_cast<std::int64_t>(row.ids.size())};
  return row;
}

TEST(EvaluateState, TheTeacherFindsItsNeedlesAndTheResultIsReadBack) {
  test::TempDir dir;
  const model::Model nano = model::load_model(fs::path(HYDRA_FIXTURES) / "qwen3-nano", model::LoadOptions{});
  EvalConfig config;
  config.niah = NiahConfig{};
  config.niah->tasks = {data::NiahTask::single_1, data::NiahTask::multikey_3};
  config.niah->lengths = {128, 256};
  config.niah->samples = {6};
  config.ppl = PplConfig{};
  const std::vector<data::Row> rows = {prose_row()};
  const EvalInputs inputs{.config = config, .tokenizer = tokenizer(), .corpora = &corpora(), .ppl_rows = &rows};
  const auto solo = dist::make_solo_communicator();
  EXPECT_FALSE(read_state(dir.path() / "teacher"));
  const StateResult state = evaluate_state("teacher", nano, {{"step", 0}}, inputs, dir.path() / "teacher", *solo);
  EXPECT_DOUBLE_EQ(state.niah->cells[0][0].score, 100);
  EXPECT_DOUBLE_EQ(state.niah->cells[0][1].score, 100);
  EXPECT_FALSE(state.niah->cells[1][0].missing.empty());  // does not fit 128 tokens
  EXPECT_GT(state.ppl->tokens, 10);
  EXPECT_GT(state.parameters, 3600000);
  EXPECT_EQ(state.cache.kv_per_token, 6 * 2 * 2 * 64 * 4);  // layers, k and v, KV heads, head_dim, fp32
  EXPECT_EQ(state.cache.constant, 0);
  const auto back = read_state(dir.path() / "teacher");
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back->niah), to_json(*state.niah));
  EXPECT_EQ(back->ppl->loss, state.ppl->loss);
  EXPECT_EQ(back->cache.kv_per_token, state.cache.kv_per_token);
  // Other weights in the same directory are refused, never mixed.
  EXPECT_THROW(evaluate_state("teacher", nano, {{"step", 1}}, inputs, dir.path() / "teacher", *solo), UserError);
}

TEST(EvaluateState, CountsWhatTheDecodeStateOfAHybridHolds) {
  test::TempDir dir;
  test::write_hybrid_nano(dir.path() / "hybrid");
  const model::Model hybrid = model::load_model(dir.path() / "hybrid", model::LoadOptions{});
  const model::CacheBytes bytes = cache_use(hybrid.config, at::kFloat, model::StateType::fp32);
  EXPECT_EQ(bytes.kv_per_token, hybrid.config.plan->touched_groups() * 2 * 64 * 4);
  EXPECT_EQ(bytes.constant, (6 * 4 - hybrid.config.plan->fa_count()) * 64 * 64 * 4);
}

}  // namespace
}  // namespace hydra::eval
