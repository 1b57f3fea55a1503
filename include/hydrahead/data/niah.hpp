#pragma once
// NIAH samples in RULER's form (evaluation.md sections 2, 5, 6): a pure function of (seed, task, length, index).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

enum class NiahTask : std::uint32_t {  // the row of evaluation.md section 2's table
  single_1 = 0, single_2, single_3, multikey_1, multikey_2, multikey_3, multivalue, multiquery
};
std::string_view task_name(NiahTask task);  // "niah_single_1"
std::optional<NiahTask> task_of(std::string_view name);

enum class PromptForm { base, chat, chat_thinking };

// Word lists and essay text, loaded once. Essay tasks refuse without a haystack and name the set-up command.
struct Corpora {
  std::vector<std::string> adjectives, nouns;
  std::vector<std::string> essay_words;      // folded at white space
  std::string essay_name, essay_sha256;      // for the report
};
Corpora load_corpora(const std::string& haystack_file, const std::string& words_dir);  // "" = default

struct NiahOptions {
  PromptForm prompt = PromptForm::base;
  bool answer_prefix = true;
  std::int64_t max_new = 0;                  // 0: auto; -1: RULER's number; else this many
  std::uint64_t seed = 42;
  std::vector<double> depths;                // percent; empty: RULER's 40 values
};

struct TokenSpan {
  std::int64_t begin = 0, end = 0;
};

struct NiahSample {
  std::string id;                            // "niah_single_1/4096/17"
  NiahTask task;
  std::int64_t length = 0, index = 0;
  std::string prompt_text, answer_prefix;    // input + answer_prefix = what the model reads
  std::vector<text::TokenId> ids;
  std::vector<std::string> references, query;
  std::vector<TokenSpan> needles, values;    // token spans in ids of queried needles
  std::vector<double> depths;                // needle token position / prompt tokens
  std::int64_t budget = 0;
};

// Exact fit: prompt + budget <= length and one more haystack unit would not fit. UserError with the least length if nothing fits.
NiahSample make_niah_sample(NiahTask task, std::int64_t length, std::int64_t index, const NiahOptions& options,
                            const Corpora& corpora, const text::Tokenizer& tokenizer);

}  // namespace hydra::data
