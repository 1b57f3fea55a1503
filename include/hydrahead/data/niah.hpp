#pragma once
// NIAH samples in RULER's form (evaluation.md sections 2, 5, 6): a pure function of (seed, task, length, index).
// The haystack is fitted to the length exactly: token counts add up over words and lines, so no text is tokenized
// twice.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/data/corpora.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

enum class NiahTask : std::uint32_t {  // the row of evaluation.md section 2's table
  single_1 = 0,
  single_2,
  single_3,
  multikey_1,
  multikey_2,
  multikey_3,
  multivalue,
  multiquery
};
std::string_view task_name(NiahTask task);  // "niah_single_1"
std::optional<NiahTask> task_of(std::string_view name);
inline constexpr NiahTask all_niah_tasks[] = {NiahTask::single_1,   NiahTask::single_2,   NiahTask::single_3,
                                              NiahTask::multikey_1, NiahTask::multikey_2, NiahTask::multikey_3,
                                              NiahTask::multivalue, NiahTask::multiquery};

enum class PromptForm { base, chat, chat_thinking };  // the thinking form has no answer prefix

struct NiahOptions {
  PromptForm prompt = PromptForm::base;
  std::string chat_wrapper;  // text holding {task}, for another model's chat form; empty: Qwen3's
  bool answer_prefix = true;
  std::int64_t max_new = 0;  // 0: auto (answer-sized below 1024 tokens); -1: RULER's number; else this many
  std::uint64_t seed = 42;
  std::vector<double> depths;  // percent: needles take entries index, index+1, ...; empty: RULER's random depths
};

struct TokenSpan {
  std::int64_t begin = 0, end = 0;
};

struct NiahSample {
  std::string id;  // "niah_single_1/4096/17"
  NiahTask task = NiahTask::single_1;
  std::int64_t length = 0, index = 0;
  std::string prompt_text, answer_prefix;  // what the model reads is prompt_text + answer_prefix
  std::vector<text::TokenId> ids;          // of prompt_text + answer_prefix
  std::vector<std::string> references, query;
  std::vector<TokenSpan> needles, values;  // in ids, one for each reference
  std::vector<double> depths;              // of each reference: its needle's first token / prompt tokens
  std::int64_t budget = 0;                 // new tokens: ids.size() + budget <= length
  std::int64_t units = 0;                  // haystack lines, or words of the essay
  std::int64_t essay_repeats = 0;          // times that the essay began again
  bool counts_added_up = true;             // false: the fit needed re-tokenizing (another tokenizer's regex)
};

// Thread-safe; corpora and tokenizer must outlive it.
class NiahBuilder {
 public:
  NiahBuilder(const Corpora& corpora, const text::Tokenizer& tokenizer, NiahOptions options);
  ~NiahBuilder();
  NiahBuilder(const NiahBuilder&) = delete;
  NiahBuilder& operator=(const NiahBuilder&) = delete;

  // One more unit of haystack would not fit. UserError with the least length if nothing fits.
  NiahSample sample(NiahTask task, std::int64_t length, std::int64_t index) const;
  // Why samples 0...samples-1 do not all fit, with the shortest length at which they do; nullopt if they fit.
  std::optional<std::string> unfit_reason(NiahTask task, std::int64_t length, std::int64_t samples) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// One sample without keeping the counts of the essay; many samples: NiahBuilder.
NiahSample make_niah_sample(NiahTask task, std::int64_t length, std::int64_t index, const NiahOptions& options,
                            const Corpora& corpora, const text::Tokenizer& tokenizer);

}  // namespace hydra::data
