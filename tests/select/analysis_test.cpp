// The analysis of heads on the small teachers, against the whole attention matrix; its page and file.

#include "hydrahead/select/analysis.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hydrahead/base/files.hpp"
#include "hydrahead/model/attention_shape.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::select {
namespace {

const fs::path fixtures = HYDRA_FIXTURES;

std::vector<std::int32_t> tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  const at::Tensor ids = at::randint(vocabulary, {count}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kInt);
  return {ids.const_data_ptr<std::int32_t>(), ids.const_data_ptr<std::int32_t>() + count};
}

// Distance, entropy, sink share [3, H] of one sequence from the whole matrix of probabilities.
at::Tensor shape_by_definition(const model::Model& teacher, std::int64_t layer, const at::Tensor& input,
                               const ops::Sequences& rows, const model::RotaryTables& tables) {
  const model::Qwen3Config& base = teacher.config.base;
  const model::TeacherAttention& weights = teacher.layers[layer].teacher;
  const std::int64_t n = rows.rows();
  const auto heads = [&](const at::Tensor& weight, const at::Tensor& norm) {
    return ops::rotate(
        ops::rms_norm(at::matmul(input, weight.t()).view({n, -1, base.head_dim}), norm, base.rms_norm_eps), tables.cos,
        tables.sin);
  };
  const at::Tensor q = heads(weights.q, weights.q_norm);
  const at::Tensor k = heads(weights.k, weights.k_norm).repeat_interleave(base.group_size(), 1);
  at::Tensor scores = at::einsum("ihd,jhd->hij", {q, k}) / std::sqrt(static_cast<double>(base.head_dim));
  scores = scores.masked_fill(at::ones({n, n}, at::kBool).triu(1), -INFINITY);
  const at::Tensor full = at::softmax(scores, -1).slice(1, 1);  // [H, n-1, n]
  const at::Tensor rest = full.slice(2, 1);
  const at::Tensor p = rest / rest.sum(-1, true);
  const at::Tensor gaps = at::arange(1, n).unsqueeze(1) - at::arange(1, n);
  return at::stack(
      {(p * gaps).sum(at::IntArrayRef{1, 2}), -at::xlogy(p, p).sum(at::IntArrayRef{1, 2}), full.select(2, 0).sum(1)});
}

TEST(AttentionShape, BlocksAgreeWithTheWholeMatrix) {
  const c10::NoGradGuard no_grad;
  const model::Model teacher = model::load_model(fixtures / "qwen3-micro-untied", {at::kCPU, at::kDouble, at::kDouble});
  constexpr std::int64_t length = 1300;  // three blocks of queries, two of keys
  const auto ids = tokens(length, teacher.config.base.vocab_size, 6);
  const ops::Sequences rows = ops::make_sequences({length}, at::kCPU);
  const model::RotaryTables tables = model::rotary_tables(teacher, rows);
  const at::Tensor hidden =
      model::embed_tokens(teacher, at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong));
  const at::Tensor x = ops::rms_norm(hidden, teacher.layers[0].input_norm, 1e-6) * 20.0;  // makes some rows sharp
  model::AttentionShape shape = model::empty_attention_shape(teacher);
  model::add_attention_shape(teacher, 0, x, rows, tables, shape);
  const at::Tensor expected = shape_by_definition(teacher, 0, x, rows, tables);
  EXPECT_EQ(shape.queries, length - 1);
  const at::Tensor found = at::stack({shape.distance, shape.entropy, shape.sink});
  EXPECT_LT(((found - expected).abs() / expected).max().item<double>(), 1e-9);
}

class Analysis : public ::testing::Test {
 protected:
  static const model::Model& teacher() {
    static const model::Model loaded = model::load_model(fixtures / "qwen3-micro-untied", {});
    return loaded;
  }
  static const HeadAnalysis& analysis() {
    static const HeadAnalysis made =
        analyse_heads(teacher(), {tokens(70, teacher().config.base.vocab_size, 1), tokens(40, 50, 2)});
    return made;
  }
};

TEST_F(Analysis, MatricesAreSimilarities) {
  const std::int64_t layers = teacher().config.base.layers, heads = teacher().config.base.heads;
  EXPECT_EQ(analysis().tokens, 110);
  for (const at::Tensor& matrix : {analysis().head_cosine, analysis().head_cka}) {
    EXPECT_EQ(matrix.sizes(), (std::vector<std::int64_t>{layers * heads, layers * heads}));
    EXPECT_TRUE(at::allclose(matrix, matrix.t(), 0, 1e-6));
    EXPECT_TRUE(at::allclose(matrix.diagonal(), at::ones({layers * heads}, at::kDouble), 0, 1e-5));
    EXPECT_LE(matrix.abs().max().item<double>(), 1.0 + 1e-5);
  }
  EXPECT_EQ(analysis().layer_cka.sizes(), (std::vector<std::int64_t>{layers, layers}));
  EXPECT_EQ(analysis().rms.sizes(), (std::vector<std::int64_t>{layers, heads}));
  EXPECT_GT(analysis().rms.min().item<double>(), 0.0);
  EXPECT_LT(analysis().sink.max().item<double>(), 1.0);
}

TEST_F(Analysis, LayerOutputsAreThoseOfTheForwardPass) {
  const c10::NoGradGuard no_grad;
  const auto ids = tokens(25, 50, 4);
  const HeadAnalysis found = analyse_heads(teacher(), {ids});
  std::vector<at::Tensor> outputs;
  model::ForwardOptions options;
  options.attention_tap = [&](std::int64_t, const at::Tensor&, const at::Tensor& y) { outputs.push_back(y); };
  model::forward_hidden(teacher(), at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong),
                        ops::make_sequences({25}, at::kCPU), options);
  const double cosine = at::cosine_similarity(outputs[0], outputs[2], 1).mean().item<double>();
  EXPECT_NEAR(found.layer_cosine[0][2].item<double>(), cosine, 1e-5);
}

TEST_F(Analysis, PageIsSelfContainedAndFileHoldsTheNumbers) {
  const test::TempDir dir;
  const std::int64_t layers = teacher().config.base.layers, heads = teacher().config.base.heads;
  at::Tensor scores = at::zeros({layers, heads}, at::kDouble);
  scores[1][0] = 0.5;
  write_analysis(dir.path(), "a <b> model", "test & tokens", analysis(), scores);
  const std::string html = read_file(dir.path() / "analysis.html");
  EXPECT_EQ(test::xml_problem(html), "");
  for (const char* outside : {"href=\"http", "src=", "<script", "url(", "@import", ">nan", " nan"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("a &lt;b&gt; model"), std::string::npos);
  EXPECT_NE(html.find("layer 1 head 0, layer 2 head 1: "), std::string::npos);
  const Json json = read_json_file((dir.path() / "analysis.json").string());
  EXPECT_EQ(json.at("head_cka").size(), static_cast<std::size_t>(layers * heads));
  EXPECT_TRUE(json.at("gini")[0].is_null());  // no score above 0
  EXPECT_DOUBLE_EQ(json.at("gini")[1].get<double>(), 1.0 - 1.0 / static_cast<double>(heads));
  EXPECT_TRUE(analysis_json(analysis(), std::nullopt).at("gini").is_null());
}

}  // namespace
}  // namespace hydra::select
