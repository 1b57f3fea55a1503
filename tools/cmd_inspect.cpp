// hydrahead inspect: checks a checkpoint without loading its weights, and prints what it is and what a head plan makes
// of it.

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/memory_estimate.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

using model::HeadPlan;
using model::ModelConfig;
using model::Qwen3Config;

// 1234567 -> "1,234,567"
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(units)) {
    value /= 1024.0;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return text.empty() ? "none" : text;
}

void print(const std::string& name, const std::string& text) {
  std::cout << name << std::string(name.size() < 18 ? 18 - name.size() : 1, ' ') << text << "\n";
}

std::int64_t count_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const model::ExpectedTensor& tensor : model::expected_tensors(config)) {
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.shape) {
      size *= extent;
    }
    count += size;
  }
  return count;
}

std::string stored_types(const io::HfModelDir& dir) {
  std::map<std::string, std::int64_t> bytes;
  for (const std::string& name : dir.names()) {
    const io::TensorInfo& info = dir.info(name);
    bytes[info.dtype] += static_cast<std::int64_t>(info.end - info.begin);
  }
  std::string text;
  for (const auto& [dtype, count] : bytes) {
    text += (text.empty() ? "" : ", ") + dtype + " " + bytes_text(count);
  }
  return text;
}

// From the frequencies that the model computes with, not from the configuration.
void print_rope(const Qwen3Config& config) {
  const model::RopeFrequencies rope = model::rope_frequencies(config);
  const at::Tensor& inverse = rope.inverse;
  print("RoPE", detail::concat(
                    config.rope.type, ", base ", config.rope.theta, ", ", inverse.numel(), " inverse frequencies from ",
                    inverse[0].item<float>(), " to ", inverse[-1].item<float>(), ", checksum ",
                    sha256_hex({static_cast<const char*>(inverse.const_data_ptr()), inverse.nbytes()}).substr(0, 12)));
  if (config.rope.type == "yarn") {
    print("", detail::concat("factor ", config.rope.factor, " of ", grouped(config.rope.original_max_position),
                             " positions, attention factor ", rope.attention_factor));
  }
}

void print_model(const io::HfModelDir& dir, const ModelConfig& config) {
  const Qwen3Config& base = config.base;
  print("model", dir.path().string());
  print("architecture",
        detail::concat(config.plan ? "HydraHead hybrid of Qwen3" : "Qwen3", ", ", base.layers, " layers, hidden ",
                       base.hidden_size, ", MLP ", base.intermediate_size, ", ", base.heads, " heads, ", base.kv_heads,
                       " KV heads, head_dim ", base.head_dim, ", vocabulary ", base.vocab_size));
  print("window", grouped(base.max_position) + " tokens");
  print("parameters",
        detail::concat(grouped(count_parameters(config)), ", ", base.tie_word_embeddings ? "tied head" : "untied head",
                       base.attention_bias ? ", attention biases" : ""));
  print("stored", stored_types(dir));
  const bool generation = dir.generation_config().is_object() && dir.generation_config().contains("eos_token_id");
  print("stop ids",
        list_text(base.stop_ids) + (generation ? " (generation_config.json, then config.json)" : " (config.json)"));
  print_rope(base);
}

void print_plan(const ModelConfig& config, bool conv) {
  const Qwen3Config& base = config.base;
  const HeadPlan& plan = *config.plan;
  const std::int64_t heads = base.layers * base.heads, groups = base.layers * base.kv_heads;
  print("head plan", plan.rule.empty() ? "full-attention heads of each layer" : "rule " + plan.rule);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    print(detail::concat("  layer ", i), detail::concat("heads ", list_text(plan.layers[i].fa_heads), "; KV groups ",
                                                        list_text(plan.layers[i].kv_groups)));
  }
  print("full attention",
        detail::concat(plan.fa_count(), " of ", heads, " heads (", percent(plan.fa_count(), heads), ")"));
  print("KV groups", detail::concat(plan.touched_groups(), " of ", groups, " touched (",
                                    percent(plan.touched_groups(), groups), ")"));
  ModelConfig teacher;
  teacher.base = base;
  const std::int64_t added = count_parameters(config) - count_parameters(teacher);
  print("parameters added", detail::concat(grouped(added), " (", percent(added, count_parameters(teacher)), ")"));
  for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{2}}) {
    print(bytes == 4 ? "constant state" : "",
          detail::concat(bytes_text(model::cache_bytes(base, plan, 2, bytes, conv).constant),
                         " a sequence with cache.state_dtype ", bytes == 4 ? "fp32" : "bf16"));
  }
}

// KV bytes in bf16 at lengths, beside the teacher's.
void print_cache(const ModelConfig& config) {
  const Qwen3Config& base = config.base;
  const std::int64_t teacher = base.layers * base.kv_heads * 2 * base.head_dim * 2;
  const std::int64_t own = config.plan ? model::cache_bytes(base, *config.plan, 2, 4, false).kv_per_token : teacher;
  print("KV cache", detail::concat(grouped(own), " bytes a token in bf16",
                                   config.plan ? " (teacher " + grouped(teacher) + ")" : std::string()));
  for (std::int64_t length = 4096; length <= 524288; length *= 2) {
    print(detail::concat("  at ", length / 1024, "K"),
          bytes_text(own * length) + (config.plan ? " (teacher " + bytes_text(teacher * length) + ")" : std::string()));
  }
}

// One row of the default context a micro-batch, bf16 compute over fp32 masters.
void print_training(const ModelConfig& config) {
  const train::StagesConfig stages{
      .align = train::AlignStage{}, .distill = train::DistillStage{}, .long_context = train::LongContextStage{}};
  print("training memory", "one row a micro-batch, bf16 over fp32 masters, one GPU:");
  for (const train::Stage& stage :
       train::make_stages(stages, config.hybrid->fa.log_scale.mode, config.base.vocab_size)) {
    const train::MemoryEstimate estimate = train::estimate_memory(config, stage, 1, 2);
    print(
        "  " + stage.name,
        detail::concat("context ", stage.schedule.context, ": ", bytes_text(estimate.total()), " (weights and teacher ",
                       bytes_text(estimate.weights + estimate.teacher), ", gradients and moments ",
                       bytes_text(estimate.gradients + estimate.moments), ", activations ",
                       bytes_text(estimate.activations), ", temporaries ", bytes_text(estimate.temporaries), ")"));
  }
}

void inspect(const std::filesystem::path& path, const std::filesystem::path& plan_file) {
  const io::HfModelDir dir = io::HfModelDir::open(path);
  ModelConfig config = model::read_model_config(dir);
  model::match_tensors(dir, config);
  print_model(dir, config);
  if (!plan_file.empty()) {
    HYDRA_REQUIRE(!config.plan, path.string(),
                  ": is a hybrid already, with a plan of its own; --plan expects a teacher");
    config.plan = model::read_plan(plan_file, config.base, "");
    if (!config.plan->teacher_sha256.empty()) {
      config.plan = model::read_plan(plan_file, config.base, dir.sha256());
    }
    config.hybrid.emplace();
  }
  if (config.plan) {
    print_plan(config, config.hybrid->gdn.conv.kernel > 0);
  }
  print_cache(config);
  if (config.plan) {
    print_training(config);
  }
}

}  // namespace

void add_inspect(CLI::App& app, int&) {
  struct Options {
    std::string model, plan;
  };
  auto* verb =
      app.add_subcommand("inspect", "Check a checkpoint and print what it is, its head plan, cache and memory");
  const auto options = std::make_shared<Options>();
  verb->add_option("model", options->model, "Model directory")->required();
  verb->add_option("--plan", options->plan, "heads.yaml: what this plan would make of the teacher");
  verb->callback([options] { inspect(options->model, options->plan); });
}

}  // namespace hydra::tools
