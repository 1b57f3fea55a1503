// Check of a hybrid case: forward outputs, stage losses, gradients (keys in golden_case.hpp).

#include "hydrahead/train/golden_case.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/chunked_loss.hpp"
#include "hydrahead/train/stage_loss.hpp"

namespace hydra::train {
namespace {

using model::GoldenFile;
using model::GoldenReport;
using model::Model;

constexpr const char* kRelativeL2 = "relative L2";
constexpr const char* kRelative = "relative";
constexpr std::int64_t kChunkRows = 1024;

class HybridCase {
 public:
  HybridCase(Model& hybrid, Model& teacher, const GoldenFile& file)
      : hybrid_(hybrid), teacher_(teacher), file_(file), tolerances_(model::golden_tolerances(hybrid.compute_type)) {
    const at::Device device = hybrid.embed.device();
    const at::Tensor ids = file.indices("input_ids", {-1, -1}, base().vocab_size);
    B_ = ids.size(0);
    T_ = ids.size(1);
    batch_.ids = ids.flatten().to(device);
    batch_.labels = file.indices("labels", {B_, T_}, base().vocab_size).flatten().to(device);
    batch_.sequences = ops::make_sequences(std::vector<std::int64_t>(B_, T_), device);
    if (file.contains("positions")) {
      const at::Tensor positions = file.indices("positions", {-1}, T_);
      P_ = positions.size(0);
      position_rows_ = (at::arange(B_).unsqueeze(1) * T_ + positions).flatten().to(device);
    }
  }

  GoldenReport run() {
    for (model::Parameter& parameter : model::parameters(teacher_)) {
      parameter.tensor->requires_grad_(false);
    }
    {
      const at::NoGradGuard no_grad;
      check_teacher();
      check_forward("", "", false);
      check_forward(".scaled", " (log scale)", true);
      check_initial_values();
    }
    check_align();
    check_stage("stage2",
                [this](bool backward) { return distill_loss(hybrid_, teacher_, batch_, rows(), {}, backward); });
    check_stage("stage3", [this](bool backward) {
      return long_context_loss(hybrid_, batch_, rows(), false, false, kChunkRows, backward);
    });
    check_stage("stage3_scaled", [this](bool backward) {
      return long_context_loss(hybrid_, batch_, rows(), true, false, kChunkRows, backward);
    });
    HYDRA_REQUIRE(!report_.lines.empty(), file_.path(), ": found no reference output, expected for example logits");
    return std::move(report_);
  }

 private:
  const model::Qwen3Config& base() const { return hybrid_.config.base; }
  double rows() const { return static_cast<double>(B_ * T_); }

  // Records the kind as absent if the file does not hold the key.
  bool present(const std::string& kind, const std::string& key) {
    if (!file_.contains(key)) {
      report_.absent.push_back(kind);
      return false;
    }
    return true;
  }

  void compare(const std::string& kind, const std::string& key, const at::Tensor& found,
               const std::vector<std::int64_t>& shape) {
    report_.add(kind, kRelativeL2, tolerances_.tensor, key,
                model::relative_l2(found.reshape(shape), file_.values(key, shape)));
  }

  void compare_logits(const std::string& kind, const std::string& key, const Model& model, const at::Tensor& hidden) {
    if (present(kind, key)) {
      HYDRA_REQUIRE(position_rows_.defined(), file_.path(), ": found ", key, " without positions");
      compare(kind, key, model::logits_of(model, hidden.index_select(0, position_rows_)), {B_, P_, base().vocab_size});
    }
  }

  void compare_attention(const std::string& kind, const std::string& prefix, const std::vector<at::Tensor>& found) {
    bool any = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (const std::string key = prefix + std::to_string(i); file_.contains(key)) {
        compare(kind, key, found[i], {B_, T_, base().hidden_size});
        any = true;
      }
    }
    if (!any) {
      report_.absent.push_back(kind);
    }
  }

  void check_forward(const std::string& suffix, const std::string& remark, bool log_scale) {
    std::vector<at::Tensor> attention;
    model::ForwardOptions options;
    options.log_scale = log_scale;
    options.attention_tap = [&](std::int64_t, const at::Tensor&, const at::Tensor& y) { attention.push_back(y); };
    const at::Tensor hidden = model::forward_hidden(hybrid_, batch_.ids, batch_.sequences, options);
    compare_logits("logits" + remark, "logits" + suffix, hybrid_, hidden);
    if (const std::string kind = "log-probabilities" + remark; present(kind, "logprob" + suffix)) {
      compare(kind, "logprob" + suffix, ops::token_logprobs(hidden, hybrid_.head, batch_.labels), {B_, T_});
    }
    if (const std::string kind = "argmax" + remark; present(kind, "argmax" + suffix)) {
      const at::Tensor choice = file_.indices("argmax" + suffix, {B_, T_}, base().vocab_size).flatten();
      report_.add(kind, "logit lost to another token", tolerances_.argmax, "argmax" + suffix,
                  model::largest_margin(hybrid_, hidden, choice));
    }
    compare_attention("attention outputs" + remark, "attn" + suffix + ".", attention);
  }

  // The teacher's own outputs, and the hybrid's attention outputs on the teacher's inputs.
  void check_teacher() {
    const model::RotaryTables tables = model::rotary_tables(hybrid_, batch_.sequences);
    std::vector<at::Tensor> attention, forced;
    model::ForwardOptions options;
    options.attention_tap = [&](std::int64_t i, const at::Tensor& x, const at::Tensor& y) {
      attention.push_back(y);
      forced.push_back(model::attention_sublayer(hybrid_, i, x, batch_.sequences, tables, {}));
    };
    const at::Tensor hidden = model::forward_hidden(teacher_, batch_.ids, batch_.sequences, options);
    compare_logits("teacher logits", "teacher.logits", teacher_, hidden);
    compare_attention("teacher attention outputs", "teacher.attn.", attention);
    compare_attention("attention outputs, teacher-forced", "stage1.attn.", forced);
  }

  void check_initial_values() {
    std::int64_t found = 0;
    for (const model::Parameter& parameter : model::parameters(hybrid_)) {
      if (const std::string key = "init." + parameter.name; file_.contains(key)) {
        compare("initial values", key, *parameter.tensor, parameter.tensor->sizes().vec());
        ++found;
      }
    }
    if (found == 0) {
      report_.absent.emplace_back("initial values");
    }
  }

  void compare_loss(const std::string& key, const at::Tensor& found, const std::vector<std::int64_t>& shape = {}) {
    if (file_.contains(key)) {
      const at::Tensor expected = file_.values(key, shape);
      const at::Tensor error = (found.to(at::kCPU) - expected).abs() / expected.abs().clamp_min(1e-12);
      report_.add("stage losses", kRelative, tolerances_.loss, key, error.max().item<double>());
    }
  }

  void check_align() {
    const std::string stage = "stage1";
    if (!wanted(stage)) {
      return;
    }
    prepare_gradients(/*attention_only=*/true);
    const StageLoss loss = align_loss(hybrid_, teacher_, batch_, rows(), {}, has_gradients(stage));
    compare_loss(stage + ".loss", loss.loss);
    compare_loss(stage + ".losses", at::stack(loss.layer_mse), {base().layers});
    check_gradients(stage);
  }

  template <class Loss>
  void check_stage(const std::string& stage, const Loss& compute) {
    if (!wanted(stage)) {
      return;
    }
    prepare_gradients(/*attention_only=*/false);
    const StageLoss loss = compute(has_gradients(stage));
    compare_loss(stage + ".loss", loss.loss);
    compare_loss(stage + ".ce", loss.ce);
    if (loss.kl.defined()) {
      compare_loss(stage + ".kl", loss.kl);
    }
    check_gradients(stage);
  }

  // Whether the file holds the stage's loss, or gradients.
  bool wanted(const std::string& stage) {
    return static_cast<int>(present(stage + " loss", stage + ".loss")) + static_cast<int>(has_gradients(stage)) > 0;
  }
  bool has_gradients(const std::string& stage) const {
    const std::vector<std::string> keys = file_.keys();
    return std::any_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return key.starts_with(stage + ".grad."); });
  }

  void prepare_gradients(bool attention_only) {
    for (model::Parameter& parameter : model::parameters(hybrid_)) {
      parameter.tensor->requires_grad_(parameter.attention || !attention_only);
      parameter.tensor->mutable_grad() = at::Tensor();
    }
  }

  // Tensors with a reference gradient.
  std::set<std::string> gradient_names(const std::string& prefix) const {
    std::set<std::string> names;
    for (const std::string& key : file_.keys()) {
      if (!key.starts_with(prefix)) {
        continue;
      }
      std::string name = key.substr(prefix.size());
      for (const std::string part : {".norm", ".samples"}) {
        const std::string whole = name.ends_with(part) ? name.substr(0, name.size() - part.size()) : "";
        // "q_norm" ends a name as well: a part is what is left of a tensor that is not stored whole.
        if (!whole.empty() && file_.contains(prefix + whole + ".norm") && file_.contains(prefix + whole + ".samples")) {
          name = whole;
        }
      }
      names.insert(name);
    }
    return names;
  }

  void check_gradients(const std::string& stage) {
    const std::string prefix = stage + ".grad.", kind = stage + " gradients";
    const std::set<std::string> names = gradient_names(prefix);
    if (names.empty()) {
      report_.absent.push_back(kind);
      return;
    }
    std::map<std::string, at::Tensor> gradients;
    for (const model::Parameter& parameter : model::parameters(hybrid_)) {
      const at::Tensor& gradient = parameter.tensor->grad();
      gradients[parameter.name] = gradient.defined() ? gradient : at::zeros_like(*parameter.tensor);
    }
    for (const std::string& name : names) {
      const auto found = gradients.find(name);
      HYDRA_REQUIRE(found != gradients.end(), file_.path(), ": found a gradient of '", name,
                    "', expected the name of one of the model's tensors");
      compare_gradient(kind, prefix + name, found->second);
    }
  }

  void compare_gradient(const std::string& kind, const std::string& key, const at::Tensor& gradient) {
    const auto add = [&](const std::string& part, double error) {
      report_.add(kind, kRelativeL2, tolerances_.gradient, part, error);
    };
    if (file_.contains(key)) {
      add(key, model::relative_l2(gradient, file_.values(key, gradient.sizes().vec())));
      return;
    }
    const at::Tensor norm = gradient.to(at::kDouble).norm();
    add(key + ".norm", model::relative_l2(norm, file_.values(key + ".norm", {})));
    const at::Tensor samples = file_.values(key + ".samples", {-1});
    const at::Tensor index = at::arange(samples.size(0)) * gradient.numel() / samples.size(0);
    add(key + ".samples",
        model::relative_l2(gradient.flatten().index_select(0, index.to(gradient.device(), at::kLong)), samples));
  }

  Model& hybrid_;
  Model& teacher_;
  const GoldenFile& file_;
  model::GoldenTolerances tolerances_;
  std::int64_t B_ = 0, T_ = 0, P_ = 0;
  DeviceBatch batch_;
  at::Tensor position_rows_;  // [B P] rows of the positions
  GoldenReport report_;
};

}  // namespace

model::GoldenReport check_hybrid_case(Model& hybrid, Model& teacher, const GoldenFile& file) {
  HYDRA_REQUIRE(hybrid.is_hybrid() && !teacher.is_hybrid(), file.path(),
                ": a hybrid case needs a hybrid as the model and its teacher, found a ",
                hybrid.is_hybrid() ? "hybrid" : "teacher", " and a ", teacher.is_hybrid() ? "hybrid" : "teacher");
  const model::Qwen3Config &a = hybrid.config.base, &b = teacher.config.base;
  HYDRA_REQUIRE(a.hidden_size == b.hidden_size && a.layers == b.layers && a.vocab_size == b.vocab_size, file.path(),
                ": the teacher has hidden size, layers and vocabulary ", b.hidden_size, ", ", b.layers, ", ",
                b.vocab_size, ", expected the hybrid's ", a.hidden_size, ", ", a.layers, ", ", a.vocab_size);
  return HybridCase(hybrid, teacher, file).run();
}

}  // namespace hydra::train
