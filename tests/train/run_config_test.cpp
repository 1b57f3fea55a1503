// The whole key tree: the shipped configs, systematic damage to them, the resolved config, and the generated page.

#include "hydrahead/train/run_config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/random.hpp"
#include "tests/support/temp_dir.hpp"

namespace {

using namespace hydra::train;

std::vector<std::filesystem::path> shipped_configs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(HYDRA_SOURCE_DIR "/configs")) {
    if (entry.path().extension() == ".yaml") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

RunConfig read_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  RunConfig config;
  hydra::config::read_yaml_text(text, "/x/run.yaml", overrides,
                                [&](hydra::config::Binder& binder) { describe(binder, config); });
  return config;
}

// The message of the refusal; "" if the text is read.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    read_text(text, overrides);
  } catch (const hydra::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ShippedConfigs, AreReadAndReadBackFromTheirResolvedForm) {
  const auto files = shipped_configs();
  ASSERT_GE(files.size(), 6u);
  for (const auto& file : files) {
    const RunConfig config = read_run_config(file);
    EXPECT_FALSE(config.teacher.empty()) << file;
    EXPECT_TRUE(config.stages.align && config.stages.long_context) << file;
    const std::string resolved = resolved_yaml(config);
    const hydra::test::TempDir elsewhere;
    std::ofstream(elsewhere.path() / "config.yaml") << resolved;
    EXPECT_EQ(resolved_yaml(read_run_config(elsewhere.path() / "config.yaml")), resolved) << file;
  }
}

TEST(ShippedConfigs, PresetsHaveTheirPublishedTokens) {
  const RunConfig config = read_run_config(HYDRA_SOURCE_DIR "/configs/qwen3-1.7b.yaml");
  const auto tokens = [](const StageSchedule& schedule) { return schedule.total_steps() * schedule.tokens_per_step(); };
  EXPECT_EQ(tokens(config.stages.align->schedule), 327'680'000);
  EXPECT_EQ(tokens(config.stages.distill->schedule), 983'040'000);
  EXPECT_EQ(tokens(config.stages.long_context->schedule), 1'048'576'000);
}

// A line "  key: value" of a config in block style, with what is around it.
struct KeyLine {
  std::size_t line;  // from 0
  std::string indent, key, rest;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<KeyLine> keys_of(const std::vector<std::string>& lines) {
  std::vector<KeyLine> keys;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t begin = lines[i].find_first_not_of(' '), colon = lines[i].find(':');
    keys.push_back({i, lines[i].substr(0, begin), lines[i].substr(begin, colon - begin), lines[i].substr(colon)});
  }
  return keys;
}

std::string join(std::vector<std::string> lines, const KeyLine& key, const std::string& new_name) {
  lines[key.line] = key.indent + new_name + key.rest;
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

// Every key of every shipped config, in its resolved form: each damage must be refused with file, line and the wrong
// key.
TEST(DamagedKeys, AreRefusedWithLineAndAdvice) {
  hydra::RandomStream random(11, 0);
  for (const auto& file : shipped_configs()) {
    const auto lines = lines_of(resolved_yaml(read_run_config(file)));
    const auto keys = keys_of(lines);
    const std::uint32_t odds = file.stem() == "nano-cpu" ? 1 : static_cast<std::uint32_t>(keys.size() / 20);
    bool inside_sources = false;
    for (const KeyLine& key : keys) {
      inside_sources = key.indent.size() == 2 ? key.key == "sources" : inside_sources && key.indent.size() > 2;
      if ((inside_sources && key.indent.size() == 4) || random.below(odds) != 0) {
        continue;  // a name of the user's choice, or not drawn
      }
      std::vector<std::string> damaged = {key.key.substr(0, key.key.size() - 1), key.key + "s"};
      damaged.push_back(static_cast<char>(std::toupper(key.key[0])) + key.key.substr(1));
      if (key.key.find('_') != std::string::npos) {
        damaged.push_back(key.key);
        std::replace(damaged.back().begin(), damaged.back().end(), '_', '-');
      }
      for (std::size_t i = 0; i + 1 < key.key.size(); ++i) {
        damaged.push_back(key.key);
        std::swap(damaged.back()[i], damaged.back()[i + 1]);
      }
      for (const std::string& name : damaged) {
        if (name == key.key || name.empty()) {
          continue;
        }
        const std::string message = refusal(join(lines, key, name));
        const std::string place = "/x/run.yaml:" + std::to_string(key.line + 1) + ": ";
        const std::size_t at = message.find(place);
        ASSERT_NE(at, std::string::npos) << file << ": " << key.key << " as " << name << ": " << message;
        const std::string line = message.substr(at, message.find('\n', at) - at);
        EXPECT_NE(line.find(name + ": unknown key; "), std::string::npos) << line;
        EXPECT_NE(line.find(key.key), std::string::npos) << line;
      }
    }
  }
}

TEST(DamagedKeys, MovedOnesNameTheirSection) {
  EXPECT_EQ(refusal("fa_ratio: 0.5"), "/x/run.yaml:1: fa_ratio: unknown key; it belongs to heads");
  EXPECT_EQ(
      refusal("peak: 0.5"),
      "/x/run.yaml:1: peak: unknown key; it belongs to stages.align.lr, stages.distill.lr, stages.long_context.lr");
  EXPECT_EQ(refusal("hybrid: {gdn: {eps: 1e-6}}"),
            "/x/run.yaml:1: hybrid.gdn.eps: unknown key; it belongs to hybrid.fusion, optimizer");
  EXPECT_EQ(refusal("stages: {align: {steps: 1, kl_weight: 1}}"),
            "/x/run.yaml:1: stages.align.kl_weight: unknown key; it belongs to stages.distill");
  EXPECT_EQ(refusal("stages: {align: {steps: 1}}\nalign: {steps: 2}"),
            "/x/run.yaml:2: align: unknown key; it belongs to stages");
  EXPECT_EQ(refusal("fa_ratio: 1\nSeed: 2\nstages: {distill: {steps: 0}}"),
            "/x/run.yaml:1: fa_ratio: unknown key; it belongs to heads\n"
            "/x/run.yaml:2: Seed: unknown key; did you mean seed?\n"
            "/x/run.yaml:3: stages.distill.steps: found \"0\", expected an integer >= 1 (steps)");
}

TEST(Conditions, BetweenKeys) {
  EXPECT_EQ(refusal("heads: {plan: heads.yaml, rule: fixed}"),
            "/x/run.yaml:1: heads.plan: a plan and a rule are both given; expected one of them");
  EXPECT_EQ(refusal("data: {sources: {a: {weight: 1}}}"),
            "/x/run.yaml:1: data.sources.a.path: expected either `path` or `synthetic`");
  EXPECT_EQ(refusal("data: {sources: {a: {path: x, synthetic: retrieval}}}"),
            "/x/run.yaml:1: data.sources.a.path: expected either `path` or `synthetic`");
  EXPECT_EQ(refusal("hybrid: {gdn: {conv: {kernel: 3}}}"), "/x/run.yaml:1: hybrid.gdn.conv.kernel: expected 0 or 4");
  EXPECT_EQ(refusal("stages: {align: {context: 512}}"),
            "/x/run.yaml:1: stages.align.tokens: expected `tokens` or `steps`");
  EXPECT_EQ(
      refusal("stages: {align: {tokens: 1M, steps: 10, context: 512, global_batch: 32}}"),
      "/x/run.yaml:1: stages.align.tokens: found 1000000, expected to agree with steps * global_batch * context = "
      "163840");
  EXPECT_EQ(refusal("stages: {align: {tokens: 163840, steps: 10, context: 512, global_batch: 32}}"), "");
  EXPECT_EQ(refusal("eval: {niah: {lengths: [512, 1024], samples: [1, 2, 3]}}"),
            "/x/run.yaml:1: eval.niah.samples: expected one number, or as many as `lengths` has");
  EXPECT_EQ(refusal("optimizer: {betas: [0.9, 1]}"), "/x/run.yaml:1: optimizer.betas: expected two numbers below 1");
}

TEST(Conditions, TokensBecomeWholeSteps) {
  const RunConfig config = read_text("stages: {align: {tokens: 0.33M, context: 512, global_batch: 8}}");
  EXPECT_EQ(config.stages.align->schedule.total_steps(), 81);
  EXPECT_FALSE(config.stages.distill.has_value());
}

TEST(Defaults, OfTheStages) {
  const RunConfig config = read_text("stages: {align: {steps: 1}, distill: {steps: 1}, long_context: {steps: 1}}");
  EXPECT_EQ(config.stages.align->schedule.lr.peak, 1e-3);
  EXPECT_EQ(config.stages.distill->schedule.global_batch, 96);
  EXPECT_EQ(config.stages.distill->ce_weight, 0.1);
  EXPECT_EQ(config.stages.long_context->schedule.context, 16384);
  EXPECT_EQ(config.stages.long_context->schedule.lr.schedule, hydra::optim::Schedule::constant);
  EXPECT_EQ(config.stages.align->schedule.micro_batch, kAutoMicroBatch);
}

TEST(Options, WithoutEffectAreNamed) {
  testing::internal::CaptureStderr();
  read_text("heads: {plan: a.yaml, fa_ratio: 0.5}\nstages:\n  long_context:\n    steps: 1\n    lr: {final: 1e-6}");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("/x/run.yaml:1: heads.fa_ratio has no effect: heads.plan names every head"), std::string::npos)
      << text;
  EXPECT_NE(text.find("/x/run.yaml:5: stages.long_context.lr.final has no effect: schedule is constant"),
            std::string::npos)
      << text;
  testing::internal::CaptureStderr();
  read_text("heads: {fa_ratio: 0.5}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Overrides, ShowInTheResolvedConfig) {
  const RunConfig config = read_text(
      "stages: {align: {steps: 5}}",
      {"stages.align.lr.peak=5e-4", "eval.niah.lengths[1]=999", "data.sources.needles={synthetic: retrieval}"});
  const std::string text = resolved_yaml(config);
  EXPECT_NE(text.find("peak: 0.0005"), std::string::npos) << text;
  EXPECT_NE(text.find("lengths: [4096, 999, 16384, 32768]"), std::string::npos) << text;
  EXPECT_NE(text.find("needles:\n      text_key: text\n      synthetic: retrieval"), std::string::npos) << text;
}

TEST(Documentation, PageIsCurrent) {
  EXPECT_EQ(hydra::read_file(HYDRA_SOURCE_DIR "/docs/config.md"), config_documentation())
      << "docs/config.md is stale: hydrahead document-config > docs/config.md";
}

}  // namespace
