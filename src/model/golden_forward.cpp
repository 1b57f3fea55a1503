// Check of the forward pass against named sequences of reference outputs (method.md section 2): logits, per-token
// log-probabilities, hidden states, attention outputs and greedy tokens.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/generate.hpp"
#include "hydrahead/model/golden.hpp"
#include "hydrahead/ops/chunked_loss.hpp"

namespace hydra::model {
namespace {

constexpr std::string_view kIds = ".input_ids";

std::vector<std::string> sequence_names(const GoldenFile& file) {
  std::vector<std::string> names;
  for (const std::string& key : file.keys()) {
    if (key.size() > kIds.size() && key.ends_with(kIds)) {
      names.push_back(key.substr(0, key.size() - kIds.size()));
    }
  }
  return names;
}

struct ForwardOutputs {
  at::Tensor final_hidden;                    // [T, D]
  std::vector<at::Tensor> hidden, attention;  // rows at the positions
};

ForwardOutputs run(const Model& model, const at::Tensor& ids, const at::Tensor& positions) {
  ForwardOutputs outputs;
  ForwardOptions options;
  options.log_scale = log_scale_at_inference(model);
  options.hidden_tap = [&](std::int64_t, const at::Tensor& hidden) {
    outputs.hidden.push_back(hidden.index_select(0, positions));
  };
  options.attention_tap = [&](std::int64_t, const at::Tensor&, const at::Tensor& output) {
    outputs.attention.push_back(output.index_select(0, positions));
  };
  const ops::Sequences sequences = ops::make_sequences({ids.size(0)}, ids.device());
  outputs.final_hidden = forward_hidden(model, ids, sequences, options);
  outputs.hidden.back() = outputs.final_hidden.index_select(0, positions);
  return outputs;
}

// The reference continuation is read as input: its tokens are greedy choices exactly if each one is the largest logit
// after the tokens before it.
double greedy_margin(const Model& model, const at::Tensor& ids, const at::Tensor& greedy) {
  const at::Tensor all = at::cat({ids, greedy.to(ids.device())});
  const ops::Sequences sequences = ops::make_sequences({all.size(0)}, ids.device());
  ForwardOptions options;
  options.log_scale = log_scale_at_inference(model);
  const at::Tensor hidden = forward_hidden(model, all, sequences, options);
  return largest_margin(model, hidden.narrow(0, ids.size(0) - 1, greedy.size(0)), greedy);
}

void check_sequence(const Model& model, const GoldenFile& file, const std::string& name, GoldenReport& report) {
  const Qwen3Config& base = model.config.base;
  const GoldenTolerances tolerances = golden_tolerances(model.compute_type);
  const at::Device device = model.embed.device();
  const at::Tensor ids = file.indices(name + std::string(kIds), {-1}, base.vocab_size).to(device);
  const std::int64_t length = ids.size(0);
  const at::Tensor positions = file.indices(name + ".positions", {-1}, length).to(device);
  const std::int64_t rows = positions.size(0);
  const ForwardOutputs outputs = run(model, ids, positions);

  if (const std::string key = name + ".logits"; file.contains(key)) {
    const at::Tensor logits = logits_of(model, outputs.final_hidden.index_select(0, positions));
    report.add("logits", "max |difference|", tolerances.logits, key,
               largest_difference(logits, file.values(key, {rows, base.vocab_size})));
  }
  if (const std::string key = name + ".token_logprob"; file.contains(key) && length > 1) {
    const at::Tensor found =
        ops::token_logprobs(outputs.final_hidden.narrow(0, 0, length - 1), model.head, ids.narrow(0, 1, length - 1));
    report.add("log-probabilities", "max |difference|", tolerances.log_probability, key,
               largest_difference(found, file.values(key, {length - 1})));
  }
  const auto check_layers = [&](const std::string& kind, const std::string& part,
                                const std::vector<at::Tensor>& found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (const std::string key = name + part + std::to_string(i); file.contains(key)) {
        report.add(kind, "max |difference| / max |value|", tolerances.hidden, key,
                   largest_relative_difference(found[i], file.values(key, {rows, base.hidden_size})));
      }
    }
  };
  check_layers("hidden states", ".hidden.", outputs.hidden);
  check_layers("attention outputs", ".attn_out.", outputs.attention);
  if (const std::string key = name + ".greedy"; file.contains(key)) {
    report.add("greedy tokens", "logit lost to another token", tolerances.greedy, key,
               greedy_margin(model, ids, file.indices(key, {-1}, base.vocab_size)));
  }
}

}  // namespace

bool holds_forward_outputs(const GoldenFile& file) { return !sequence_names(file).empty(); }

GoldenReport check_forward_outputs(const Model& model, const GoldenFile& file) {
  const at::NoGradGuard no_grad;
  GoldenReport report;
  for (const std::string& name : sequence_names(file)) {
    check_sequence(model, file, name, report);
  }
  for (const char* kind : {"logits", "log-probabilities", "hidden states", "attention outputs", "greedy tokens"}) {
    const auto same = [kind](const GoldenLine& line) { return line.kind == kind; };
    if (std::none_of(report.lines.begin(), report.lines.end(), same)) {
      report.absent.emplace_back(kind);
    }
  }
  return report;
}

}  // namespace hydra::model
