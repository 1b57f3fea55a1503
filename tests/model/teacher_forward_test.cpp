// The teacher against what Hugging Face transformers computes, and the comparison itself.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/golden.hpp"
#include "hydrahead/ops/sequences.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::model {
namespace {

const std::filesystem::path fixtures = HYDRA_FIXTURES;

GoldenFile golden(const std::string& name) { return GoldenFile::open(fixtures / "golden" / (name + ".safetensors")); }

void expect_match(const std::string& dir, const std::string& file, const LoadOptions& options) {
  const GoldenReport report = check_forward_outputs(load_model(fixtures / dir, options), golden(file));
  EXPECT_EQ(report.lines.size(), 5);
  EXPECT_TRUE(report.absent.empty());
  for (const GoldenLine& line : report.lines) {
    EXPECT_LE(line.error, line.tolerance) << line.kind << " at " << line.where;
  }
  EXPECT_TRUE(report.passed());
}

TEST(TeacherForward, MatchesHuggingFaceInSinglePrecision) {
  expect_match("qwen3-nano", "qwen3-nano", {});
  expect_match("qwen3-micro-untied", "micro-untied", {});
}

TEST(TeacherForward, MatchesHuggingFaceInOtherPrecisions) {
  expect_match("qwen3-micro-untied", "micro-untied", {at::kCPU, at::kDouble, at::kDouble});
  expect_match("qwen3-nano", "qwen3-nano", {at::kCPU, at::kBFloat16, at::kBFloat16});
}

TEST(TeacherForward, SmallChangesAreFound) {
  const GoldenFile file = golden("micro-untied");
  const auto failing = [&](auto change) {
    Model model = load_model(fixtures / "qwen3-micro-untied", {});
    change(model);
    std::set<std::string> kinds;
    for (const GoldenLine& line : check_forward_outputs(model, file).lines) {
      if (!(line.error <= line.tolerance)) {
        kinds.insert(line.kind);
      }
    }
    return kinds;
  };
  EXPECT_TRUE(failing([](Model&) {}).empty());
  EXPECT_TRUE(failing([](Model& m) { m.layers[1].teacher.q_norm.mul_(1.01); }).count("attention outputs"));
  EXPECT_TRUE(failing([](Model& m) { m.head.mul_(1.01); }).count("logits"));
  EXPECT_TRUE(failing([](Model& m) { m.rope_frequencies.mul_(1.001); }).count("hidden states"));
  EXPECT_TRUE(failing([](Model& m) { m.norm.fill_(std::nan("")); }).count("greedy tokens"));
}

TEST(TeacherForward, BiasesAndRopeFactorAreUsed) {
  ModelConfig config;
  config.base = load_model(fixtures / "qwen3-micro-untied", {}).config.base;
  config.base.attention_bias = true;
  Model model = random_model(config, {at::kCPU, at::kDouble, at::kDouble}, 3);
  const at::Tensor ids = at::arange(20, at::kLong);
  const auto sequences = ops::make_sequences({20}, at::kCPU);
  const at::Tensor before = forward_hidden(model, ids, sequences);
  for (at::Tensor TeacherAttention::*bias :
       {&TeacherAttention::q_bias, &TeacherAttention::k_bias, &TeacherAttention::v_bias, &TeacherAttention::o_bias}) {
    at::Tensor& value = model.layers[0].teacher.*bias;
    const at::Tensor saved = value.clone();
    value.add_(at::linspace(0, 1, value.numel(), at::kDouble));
    EXPECT_GT(largest_difference(forward_hidden(model, ids, sequences), before), 1e-3);
    value.copy_(saved);
  }
  // yarn's factor multiplies q and k, so scores grow by its square.
  Model scaled = model;
  scaled.rope_attention_factor = 1.25;
  EXPECT_GT(largest_difference(forward_hidden(scaled, ids, sequences), before), 1e-3);
  for (Layer& layer : model.layers) {
    layer.teacher.q_norm = layer.teacher.q_norm * (1.25 * 1.25);
  }
  EXPECT_TRUE(test::close(forward_hidden(scaled, ids, sequences), forward_hidden(model, ids, sequences), 1e-6));
}

TEST(TeacherForward, HeadOutputsGiveTheSublayer) {
  at::manual_seed(5);
  const Model model = load_model(fixtures / "qwen3-micro-untied", {});
  const auto sequences = ops::make_sequences({7, 12}, at::kCPU);
  const RotaryTables tables = rotary_tables(model, sequences);
  const at::Tensor x = at::randn({19, model.config.base.hidden_size});
  const at::Tensor heads = teacher_head_outputs(model, 2, x, sequences, tables);
  EXPECT_EQ(heads.sizes(), (at::IntArrayRef{19, 8, 32}));
  EXPECT_TRUE(test::close(heads.flatten(1).matmul(model.layers[2].teacher.o.t()),
                          attention_sublayer(model, 2, x, sequences, tables, {}), 1e-6));
}

TEST(GoldenFile, NamesWhatIsWrong) {
  const test::TempDir dir;
  const auto path = dir.path() / "golden.safetensors";
  io::write_safetensors(path, {{"a.input_ids", at::tensor({1, 2, 600}, at::kLong)},
                               {"a.positions", at::tensor({0, 1}, at::kLong)},
                               {"a.logits", at::zeros({2, 7})}});
  const GoldenFile file = GoldenFile::open(path);
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const Model model = load_model(fixtures / "qwen3-micro-untied", {});
  const std::string ids = message([&] { check_forward_outputs(model, file); });
  EXPECT_NE(ids.find("a.input_ids: found 600, expected values from 0 to 516"), std::string::npos) << ids;
  const std::string shape = message([&] { file.values("a.logits", {2, 517}); });
  EXPECT_NE(shape.find("a.logits: found shape [2, 7], expected [2, 517]"), std::string::npos) << shape;
  const std::string absent = message([&] { file.values("b.logits", {-1}); });
  EXPECT_NE(absent.find("found no tensor 'b.logits'"), std::string::npos) << absent;
  const std::string type = message([&] { file.integers("a.logits", {-1, -1}); });
  EXPECT_NE(type.find("found type F32, expected integers"), std::string::npos) << type;
}

TEST(GoldenReport, KeepsTheLargestErrorAndCountsNanAsInfinite) {
  GoldenReport report;
  EXPECT_FALSE(report.passed());
  report.add("logits", "m", 1.0, "a", 0.5);
  report.add("logits", "m", 1.0, "b", 0.75);
  report.add("logits", "m", 1.0, "c", 0.25);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.lines[0].where, "b");
  EXPECT_EQ(report.lines[0].compared, 3);
  report.add("logits", "m", 1.0, "d", std::nan(""));
  EXPECT_FALSE(report.passed());
}

}  // namespace
}  // namespace hydra::model
