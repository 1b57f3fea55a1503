#pragma once
// What the NIAH tests share: a small corpus, the bundled tokenizer, and decoders that are no models.

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/data/niah.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/eval/niah_run.hpp"

namespace hydra::eval::test_support {

inline const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(std::filesystem::path(HYDRA_FIXTURES) / "qwen3-nano");
  return loaded;
}

// The built-in words and an essay of plain sentences.
inline const data::Corpora& corpora() {
  static const data::Corpora made = [] {
    data::Corpora corpora = data::load_corpora("", "");
    corpora.essay.clear();
    for (int i = 0; i < 2000; ++i) {
      corpora.essay += (i == 0 ? "The" : " The") + std::string(i % 3 == 0 ? " letter" : " garden") +
                       " was seen by the old friend of the house. It was a quiet day.";
    }
    corpora.essay_name = "test";
    corpora.essay_sha256 = sha256_hex(corpora.essay);
    return corpora;
  }();
  return made;
}

inline NiahConfig small_config() {
  NiahConfig config;
  config.tasks = {data::NiahTask::single_1, data::NiahTask::single_2, data::NiahTask::multivalue};
  config.lengths = {512, 256};
  config.samples = {5};
  return config;
}

constexpr std::int32_t stop_id = 0;

// Knows every sample of a config by its prompt.
class Oracle {
 public:
  explicit Oracle(const NiahConfig& config) {
    const data::NiahBuilder builder(corpora(), tokenizer(), {});  // the default seed
    for (const data::NiahTask task : config.tasks) {
      for (std::size_t l = 0; l < config.lengths.size(); ++l) {
        for (std::int64_t i = 0; i < config.samples_at(l); ++i) {
          if (builder.unfit_reason(task, config.lengths[l], i + 1)) {
            continue;
          }
          const data::NiahSample sample = builder.sample(task, config.lengths[l], i);
          std::string answer;
          for (const std::string& reference : sample.references) {
            answer += (answer.empty() ? " " : ", ") + reference;
          }
          answers_[sample.ids] = tokenizer().encode(answer);
          answers_[sample.ids].push_back(stop_id);
        }
      }
    }
  }
  Generate generate() {
    return [this](const std::vector<std::vector<std::int32_t>>& prompts, const std::vector<std::int64_t>&) {
      std::vector<std::vector<std::int32_t>> out;
      for (const auto& prompt : prompts) {
        asked_twice = asked_twice || !asked.insert(prompt).second;
        out.push_back(answers_.at(prompt));
      }
      return out;
    };
  }
  std::set<std::vector<std::int32_t>> asked;
  bool asked_twice = false;

 private:
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> answers_;
};

inline NiahSubject subject(const std::string& model = "m1") {
  return {.name = "a <test> model", .identity = {{"model_sha256", model}}, .stop_ids = {stop_id}, .trained_context = 0};
}

inline NiahRunOptions options(const std::filesystem::path& out) {
  NiahRunOptions options;
  options.out = out;
  options.batch_tokens = 1024;
  return options;
}

inline NiahSummary run(const NiahConfig& config, const NiahRunOptions& run_options, const Generate& generate,
                       const NiahSubject& who = subject()) {
  const auto solo = dist::make_solo_communicator();
  return NiahRun(config, corpora(), tokenizer(), who, run_options, *solo).run(generate);
}

// Files that must not depend on interruptions, order, ranks or time.
inline std::map<std::string, std::string> result_files(const std::filesystem::path& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name != "run.json" && name != "samples.jsonl") {
      files[name] = read_file(entry.path());
    }
  }
  return files;
}

}  // namespace hydra::eval::test_support
