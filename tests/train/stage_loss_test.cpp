// The three stage losses: against the reference case, for an identical student, under packing, padding and splitting.

#include "hydrahead/train/stage_loss.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/chunked_loss.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/train/golden_case.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/peak_memory.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::train {
namespace {

using model::Model;
using Gradients = std::map<std::string, at::Tensor>;

const std::filesystem::path fixtures = HYDRA_FIXTURES;

Model nano_teacher(const model::LoadOptions& options = {}) {
  return model::load_model(fixtures / "qwen3-nano", options);
}

Model nano_hybrid(const model::LoadOptions& options = {}) {
  const test::TempDir dir;
  test::write_hybrid_nano(dir.path() / "hybrid");
  return model::load_model(dir.path() / "hybrid", options);
}

model::GoldenFile reference_case() { return model::GoldenFile::open(fixtures / "golden/hybrid-nano/case.safetensors"); }

void set_trainable(Model& model, bool attention_only) {
  for (const model::Parameter& parameter : model::parameters(model)) {
    parameter.tensor->requires_grad_(parameter.attention || !attention_only);
    parameter.tensor->mutable_grad() = at::Tensor();
  }
}

Gradients take_gradients(Model& model) {
  Gradients gradients;
  for (const model::Parameter& parameter : model::parameters(model)) {
    if (parameter.tensor->grad().defined()) {
      gradients[parameter.name] = parameter.tensor->grad();
      parameter.tensor->mutable_grad() = at::Tensor();
    }
  }
  return gradients;
}

void expect_close(const Gradients& found, const Gradients& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    EXPECT_TRUE(test::close(found.at(name), gradient, tolerance)) << name;
  }
}

double largest_norm(const Gradients& gradients) {
  double largest = 0.0;
  for (const auto& [name, gradient] : gradients) {
    largest = std::max(largest, gradient.norm().item<double>());
  }
  return largest;
}

// Documents of pseudo-random tokens; the last row of each has no next token.
at::Tensor document(std::int64_t length) {
  return at::remainder(at::arange(length, at::kLong) * (length + 31) + length, 4096);
}

DeviceBatch packed(const std::vector<std::int64_t>& lengths, std::int64_t padding = 0) {
  std::vector<at::Tensor> ids, labels;
  for (const std::int64_t length : lengths) {
    ids.push_back(document(length));
    labels.push_back(at::cat({ids.back().narrow(0, 1, length - 1), at::full({1}, -1, at::kLong)}));
  }
  std::vector<std::int64_t> all = lengths;
  if (padding > 0) {
    ids.push_back(at::zeros({padding}, at::kLong));
    labels.push_back(at::full({padding}, -1, at::kLong));
    all.push_back(padding);
  }
  return {at::cat(ids), at::cat(labels), ops::make_sequences(all, at::kCPU)};
}

double counted(const DeviceBatch& batch) { return static_cast<double>((batch.labels >= 0).sum().item<std::int64_t>()); }

TEST(HybridCase, LossesAndGradientsMatchTheReference) {
  Model hybrid = nano_hybrid(), teacher = nano_teacher();
  const model::GoldenReport report = check_hybrid_case(hybrid, teacher, reference_case());
  std::map<std::string, std::int64_t> compared;
  for (const model::GoldenLine& line : report.lines) {
    EXPECT_LE(line.error, line.tolerance) << line.kind << " at " << line.where;
    compared[line.kind] = line.compared;
  }
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(compared["stage losses"], 7);
  EXPECT_EQ(compared["stage1 gradients"], 143);
  for (const char* stage : {"stage2", "stage3", "stage3_scaled"}) {
    EXPECT_EQ(compared[std::string(stage) + " gradients"], 194) << stage;
  }
  EXPECT_EQ(report.absent, (std::vector<std::string>{"teacher logits", "initial values"}));
}

TEST(HybridCase, SmallChangesAreFound) {
  Model teacher = nano_teacher();
  const auto failing = [&](auto change) {
    Model hybrid = nano_hybrid();
    change(hybrid);
    std::set<std::string> kinds;
    for (const model::GoldenLine& line : check_hybrid_case(hybrid, teacher, reference_case()).lines) {
      if (!(line.error <= line.tolerance)) {
        kinds.insert(line.kind);
      }
    }
    return kinds;
  };
  const auto by_gamma = failing([](Model& m) { m.layers[1].hybrid.gamma.mul_(1.001); });
  EXPECT_TRUE(by_gamma.count("attention outputs") && by_gamma.count("stage1 gradients"));
  const auto by_scale = failing([](Model& m) { m.config.hybrid->fa.log_scale.a = 510.0; });
  EXPECT_TRUE(by_scale.count("logits (log scale)") && by_scale.count("stage3_scaled gradients"));
  EXPECT_FALSE(by_scale.count("logits") || by_scale.count("stage3 gradients"));
}

TEST(HybridCase, RefusesWrongRequests) {
  Model hybrid = nano_hybrid(), teacher = nano_teacher();
  EXPECT_THROW(check_hybrid_case(teacher, teacher, reference_case()), UserError);
  Model micro = model::load_model(fixtures / "qwen3-micro-untied", {});
  EXPECT_THROW(check_hybrid_case(hybrid, micro, reference_case()), UserError);
  const test::TempDir dir;
  const auto path = dir.path() / "case.safetensors";
  const at::Tensor ids = at::zeros({1, 4}, at::kLong);
  io::write_safetensors(path, {{"input_ids", ids}, {"labels", ids}, {"stage3.grad.model.norm.bias", at::zeros({192})}});
  EXPECT_THROW(check_hybrid_case(hybrid, teacher, model::GoldenFile::open(path)), UserError);
  io::write_safetensors(path, {{"input_ids", ids}, {"labels", ids}, {"logits", at::zeros({1, 1, 4096})}});
  EXPECT_THROW(check_hybrid_case(hybrid, teacher, model::GoldenFile::open(path)), UserError);  // no positions
}

// Every head FA under the identity options, weights copied.
Model identical_student(const Model& teacher) {
  Model student = teacher;
  student.config.hybrid.emplace();
  student.config.hybrid->fa.rope = true;
  student.config.hybrid->fa.gate = model::FaGate::none;
  student.config.hybrid->fusion.mode = model::FusionMode::none;
  student.config.plan = model::make_plan(
      teacher.config.base, std::vector<std::vector<std::int64_t>>(teacher.layers.size(), {0, 1, 2, 3}), "test");
  for (model::Layer& layer : student.layers) {
    layer.hybrid.fa.q = layer.teacher.q;
    layer.hybrid.fa.k = layer.teacher.k;
    layer.hybrid.fa.v = layer.teacher.v;
    layer.hybrid.fa.q_norm = layer.teacher.q_norm;
    layer.hybrid.fa.k_norm = layer.teacher.k_norm;
    layer.hybrid.o = layer.teacher.o;
  }
  for (const model::Parameter& parameter : model::parameters(student)) {
    *parameter.tensor = parameter.tensor->clone();
  }
  student.head = student.embed;
  return student;
}

TEST(StageLoss, IdenticalStudentHasNoLossAndNoGradient) {
  const Model teacher = nano_teacher();
  Model student = identical_student(teacher);
  const DeviceBatch batch = packed({100, 28});
  for (const AlignTarget target : {AlignTarget::sublayer, AlignTarget::layer}) {
    for (const AlignInput input : {AlignInput::teacher, AlignInput::student}) {
      set_trainable(student, true);
      EXPECT_EQ(align_loss(student, teacher, batch, 128, {target, input}, true).mse.item<double>(), 0.0);
      EXPECT_EQ(largest_norm(take_gradients(student)), 0.0);
    }
  }
  set_trainable(student, false);
  DistillOptions kl_only;
  kl_only.ce_weight = 0.0;
  const StageLoss distill = distill_loss(student, teacher, batch, counted(batch), kl_only, true);
  EXPECT_LT(std::abs(distill.kl.item<double>()), 1e-6);
  EXPECT_LT(largest_norm(take_gradients(student)), 1e-5);
  const double own = long_context_loss(student, batch, counted(batch), false, false, 64, false).ce.item<double>();
  const double theirs = long_context_loss(teacher, batch, counted(batch), false, false, 64, false).ce.item<double>();
  EXPECT_NEAR(own, theirs, 1e-6);
  EXPECT_GT(theirs, 1.0);
}

TEST(StageLoss, AlignIsTheMeanSquaredErrorOfEachLayer) {
  const Model teacher = nano_teacher();
  Model student = nano_hybrid();
  const DeviceBatch batch = packed({40, 24});
  const at::NoGradGuard no_grad;
  const model::RotaryTables tables = model::rotary_tables(student, batch.sequences);
  const auto mse = [](const at::Tensor& a, const at::Tensor& b) { return (a - b).square().mean().item<double>(); };
  at::Tensor hidden = model::embed_tokens(teacher, batch.ids), own = hidden;
  std::array<double, 4> expected{};  // sublayer or layer target, teacher's or own input
  for (std::int64_t i = 0; i < 6; ++i) {
    const double eps = teacher.config.base.rms_norm_eps;
    const at::Tensor x = ops::rms_norm(hidden, teacher.layers[i].input_norm, eps);
    const at::Tensor own_x = ops::rms_norm(own, student.layers[i].input_norm, eps);
    const at::Tensor target = model::attention_sublayer(teacher, i, x, batch.sequences, tables, {});
    const at::Tensor next = model::transformer_layer(teacher, i, hidden, batch.sequences, tables, {});
    const at::Tensor forced = model::transformer_layer(student, i, hidden, batch.sequences, tables, {});
    const at::Tensor own_next = model::transformer_layer(student, i, own, batch.sequences, tables, {});
    expected[0] += mse(model::attention_sublayer(student, i, x, batch.sequences, tables, {}), target) / 6;
    expected[1] += mse(forced, next) / 6;
    expected[2] += mse(model::attention_sublayer(student, i, own_x, batch.sequences, tables, {}), target) / 6;
    expected[3] += mse(own_next, next) / 6;
    hidden = next;
    own = own_next;
  }
  const std::array<AlignOptions, 4> options{{{AlignTarget::sublayer, AlignInput::teacher},
                                             {AlignTarget::layer, AlignInput::teacher},
                                             {AlignTarget::sublayer, AlignInput::student},
                                             {AlignTarget::layer, AlignInput::student}}};
  for (std::size_t i = 0; i < options.size(); ++i) {
    const StageLoss loss = align_loss(student, teacher, batch, 64, options[i], false);
    EXPECT_NEAR(loss.loss.item<double>(), expected[i], 1e-5 * expected[i]) << i;
    EXPECT_EQ(loss.layer_mse.size(), 6);
    EXPECT_GT(expected[i], 1e-6);
  }
}

// The gradient of every align option against autograd through the plain formula.
TEST(StageLoss, AlignGradientsReachTheAttentionModulesOnly) {
  const Model teacher = nano_teacher();
  Model student = nano_hybrid();
  const DeviceBatch batch = packed({40, 24});
  for (const AlignTarget target : {AlignTarget::sublayer, AlignTarget::layer}) {
    for (const AlignInput input : {AlignInput::teacher, AlignInput::student}) {
      set_trainable(student, true);
      align_loss(student, teacher, batch, 64, {target, input}, true);
      const Gradients found = take_gradients(student);
      std::size_t trained = 0;
      for (const model::Parameter& parameter : model::parameters(student)) {
        trained += parameter.attention ? 1 : 0;
      }
      EXPECT_EQ(found.size(), trained);
      // One direction in parameter space: the loss falls by step |gradient|^2 along the gradient.
      const at::NoGradGuard no_grad;
      double square = 0.0;
      for (const auto& [name, gradient] : found) {
        square += gradient.to(at::kDouble).square().sum().item<double>();
      }
      constexpr double step = 1e-3;
      std::array<double, 2> losses{};
      for (const int sign : {1, -1}) {
        Model moved = student;
        for (const model::Parameter& parameter : model::parameters(moved)) {
          if (const auto gradient = found.find(parameter.name); gradient != found.end()) {
            *parameter.tensor = *parameter.tensor + gradient->second * (sign * step / std::sqrt(square));
          }
        }
        losses[sign > 0 ? 0 : 1] = align_loss(moved, teacher, batch, 64, {target, input}, false).loss.item<double>();
      }
      const double slope = (losses[0] - losses[1]) / (2 * step);
      if (input == AlignInput::teacher) {
        EXPECT_NEAR(slope, std::sqrt(square), 2e-3 * std::sqrt(square));
      } else {
        EXPECT_GT(slope, 0.0);  // a layer's input is detached, so later layers' losses move as well
      }
    }
  }
}

// Documents alone, packed, packed in another order, and padded: the same log-probability of every token and the same
// gradients of every stage.
TEST(StageLoss, PackingOrderAndPaddingDoNotMatter) {
  Model hybrid = nano_hybrid();
  const Model teacher = nano_teacher();
  const std::vector<std::int64_t> lengths = {1, 2, 3, 4, 63, 64, 65, 129, 200, 7};
  std::vector<std::int64_t> reversed(lengths.rbegin(), lengths.rend());
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const double divisor = static_cast<double>(total - static_cast<std::int64_t>(lengths.size()));
  const DeviceBatch whole = packed(lengths), other = packed(reversed), padded = packed(lengths, 640 - total);

  const auto logprobs = [&](const DeviceBatch& batch) {  // by document length
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = model::forward_hidden(hybrid, batch.ids, batch.sequences);
    const at::Tensor all = ops::token_logprobs(hidden, hybrid.head, batch.labels.clamp_min(0));
    std::map<std::int64_t, at::Tensor> result;
    for (std::int64_t s = 0; s < batch.sequences.count(); ++s) {
      const std::int64_t length = batch.sequences.length(s);
      result[length] = all.narrow(0, batch.sequences.offsets[s], length - 1);
    }
    return result;
  };
  const auto in_one_row = logprobs(whole), in_other_order = logprobs(other), with_padding = logprobs(padded);
  for (const std::int64_t length : lengths) {
    const at::Tensor alone = logprobs(packed({length})).at(length);
    for (const auto* result : {&in_one_row, &in_other_order, &with_padding}) {
      EXPECT_TRUE(test::close(result->at(length), alone, 1e-5) || length == 1) << length;
    }
  }

  set_trainable(hybrid, false);
  using Loss = std::function<StageLoss(const DeviceBatch&)>;
  const Loss distill = [&](const DeviceBatch& batch) {
    return distill_loss(hybrid, teacher, batch, divisor, {}, true);
  };
  const Loss long_context = [&](const DeviceBatch& batch) {
    return long_context_loss(hybrid, batch, divisor, true, false, 100, true);
  };
  const Loss align = [&](const DeviceBatch& batch) {
    return align_loss(hybrid, teacher, batch, static_cast<double>(total), {}, true);
  };
  for (const Loss& loss : {distill, long_context, align}) {
    double sum = 0.0;
    for (const std::int64_t length : lengths) {
      sum += loss(packed({length})).loss.item<double>();
    }
    const Gradients separate = take_gradients(hybrid);
    EXPECT_NEAR(loss(whole).loss.item<double>(), sum, 1e-5 * sum);
    expect_close(take_gradients(hybrid), separate, 1e-4);
    EXPECT_NEAR(loss(other).loss.item<double>(), sum, 1e-5 * sum);
    expect_close(take_gradients(hybrid), separate, 1e-4);
  }
  EXPECT_NEAR(distill(padded).loss.item<double>(), distill(whole).loss.item<double>(), 1e-6);
}

TEST(StageLoss, RecomputeChangesNoBit) {
  Model hybrid = nano_hybrid();
  const Model teacher = nano_teacher();
  const DeviceBatch batch = packed({70, 58});
  DistillOptions plain, recompute;
  recompute.recompute = true;
  set_trainable(hybrid, false);
  const double loss = distill_loss(hybrid, teacher, batch, counted(batch), plain, true).loss.item<double>();
  const Gradients expected = take_gradients(hybrid);
  EXPECT_EQ(distill_loss(hybrid, teacher, batch, counted(batch), recompute, true).loss.item<double>(), loss);
  const Gradients found = take_gradients(hybrid);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    EXPECT_TRUE(test::identical(found.at(name), gradient)) << name;
  }
}

// Peak memory of one pass over 2048 rows, gradients of the parameters left out.
std::int64_t peak_of_stage(std::int64_t layers, bool align, bool recompute) {
  model::ModelConfig config;
  config.base.vocab_size = 50;
  config.base.hidden_size = 32;
  config.base.intermediate_size = 64;
  config.base.layers = layers;
  config.base.heads = 4;
  config.base.kv_heads = 2;
  config.base.head_dim = 16;
  config.base.tie_word_embeddings = true;
  const Model teacher = model::random_model(config, {}, 1);
  config.hybrid.emplace();
  config.plan = model::make_plan(config.base, std::vector<std::vector<std::int64_t>>(layers, {0}), "test");
  Model student = model::random_model(config, {}, 2);
  set_trainable(student, align);
  const at::Tensor ids = at::remainder(at::arange(2048, at::kLong), 50);
  const DeviceBatch batch{ids, ids, ops::make_sequences({2048}, at::kCPU)};
  return test::peak_bytes([&] {
    if (align) {
      align_loss(student, teacher, batch, 2048, {}, true);
    } else {
      long_context_loss(student, batch, 2048, false, recompute, 256, true);
    }
  });
}

TEST(StageLoss, AlignHoldsOneLayerAtATime) {
  const auto two = static_cast<double>(peak_of_stage(2, true, false));
  EXPECT_LT(static_cast<double>(peak_of_stage(8, true, false)), 1.1 * two);
  // The same check sees the difference that recompute makes to a stage that walks the whole model backward.
  const auto whole = static_cast<double>(peak_of_stage(8, false, false));
  EXPECT_GT(whole, 2.5 * static_cast<double>(peak_of_stage(2, false, false)));
  EXPECT_LT(static_cast<double>(peak_of_stage(8, false, true)), 0.5 * whole);
}

TEST(StageLoss, ValidationEqualsTraining) {
  Model hybrid = nano_hybrid();
  const Model teacher = nano_teacher();
  const DeviceBatch batch = packed({70, 58});
  set_trainable(hybrid, false);
  const double divisor = counted(batch);
  EXPECT_EQ(align_loss(hybrid, teacher, batch, 128, {}, true).loss.item<double>(),
            align_loss(hybrid, teacher, batch, 128, {}, false).loss.item<double>());
  EXPECT_NEAR(distill_loss(hybrid, teacher, batch, divisor, {}, true).loss.item<double>(),
              distill_loss(hybrid, teacher, batch, divisor, {}, false).loss.item<double>(), 1e-6);
  take_gradients(hybrid);
  long_context_loss(hybrid, batch, divisor, false, false, 64, false);
  EXPECT_TRUE(take_gradients(hybrid).empty());  // no backward pass was asked for
}

TEST(StageLoss, ABatchWithoutCountedRowsGivesZero) {
  Model hybrid = nano_hybrid();
  const Model teacher = nano_teacher();
  const DeviceBatch batch = packed({1, 1});
  set_trainable(hybrid, false);
  EXPECT_EQ(distill_loss(hybrid, teacher, batch, 10, {}, true).loss.item<double>(), 0.0);
  EXPECT_EQ(long_context_loss(hybrid, batch, 10, true, false, 64, true).loss.item<double>(), 0.0);
  EXPECT_TRUE(take_gradients(hybrid).empty());
}

}  // namespace
}  // namespace hydra::train
