#pragma once
// The config section `eval`: which evaluations run after which phase, and their settings (evaluation.md).

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/niah.hpp"

namespace hydra::eval {

enum class EvalPoint { convert, align, distill, long_context };

struct NiahConfig {
  std::vector<data::NiahTask> tasks = {data::NiahTask::single_1, data::NiahTask::single_2, data::NiahTask::single_3,
                                       data::NiahTask::multikey_1};
  std::vector<std::int64_t> lengths = {4096, 8192, 16384, 32768};
  std::vector<std::int64_t> samples = {100};  // one number for all lengths, or one a length
  data::PromptForm prompt = data::PromptForm::base;
  std::filesystem::path chat_wrapper;  // stands in for the template of `prompt`; empty: none
  bool answer_prefix = true;
  std::int64_t max_new = 0;  // 0: auto; -1: RULER's number
  std::int64_t seed = 42;
  std::vector<double> depths;             // percent; empty: RULER's 40 values
  std::filesystem::path haystack, words;  // empty: the default essay and word lists

  std::int64_t samples_at(std::size_t length_index) const {
    return samples.size() == 1 ? samples.front() : samples.at(length_index);
  }
};
void describe(config::Binder& binder, NiahConfig& value);

struct PplConfig {
  std::filesystem::path path;    // empty: data.validation.path
  std::int64_t tokens = 262144;  // read in all
  std::int64_t context = 4096;   // tokens a row; reported by position up to here
};
void describe(config::Binder& binder, PplConfig& value);

// A state of another run, shown beside this one's: the same training with other heads, for example.
struct BesideConfig {
  std::filesystem::path run;
  EvalPoint phase = EvalPoint::align;
};
void describe(config::Binder& binder, BesideConfig& value);
std::string phase_name(EvalPoint phase);  // "converted", "align", ...: the folder of its evaluation

struct EvalConfig {
  std::vector<EvalPoint> after = {EvalPoint::convert, EvalPoint::align, EvalPoint::distill, EvalPoint::long_context};
  bool teacher = true;             // before all
  std::optional<NiahConfig> niah;  // absent: not run
  std::optional<PplConfig> ppl;
  std::map<std::string, BesideConfig> beside;  // by the name in the report
};
void describe(config::Binder& binder, EvalConfig& value);

}  // namespace hydra::eval
