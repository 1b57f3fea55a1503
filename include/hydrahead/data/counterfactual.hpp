#pragma once
// Counterfactual pairs (method.md 3.1): a prompt that holds an answer, and the same prompt with a distractor of the
// same kind in its place. What a head's output in the second run does to the first is what the head contributes.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/data/niah.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

// Both runs are followed by the clean answer (teacher forced) but for its last token, and have equally many tokens, so
// that positions match one to one.
struct CounterfactualPair {
  std::string id;                             // "niah_single_1/4096/3", "addition/5"
  std::string probe;                          // "niah_single_1", "induction", "addition", ...
  std::string capability;                     // "single", "multi", "general"
  std::vector<text::TokenId> clean, corrupt;  // [T] each
  // The answer tokens of Eq. 9: rows whose next token is read out, and which tokens are compared there. Places where
  // answer and distractor have the same token add nothing to m and are left out, so answer[i] != distractor[i]; the
  // others keep their place in the answer, j = rows[i] - (T - answer_size).
  std::int64_t answer_size = 0;                   // |A|
  std::vector<std::int64_t> rows;                 // ascending
  std::vector<text::TokenId> answer, distractor;  // a+ and a- of each row
  // Where the answer stands in the clean prompt, answer token by answer token, for scores that look at attention: of
  // answer[i] the position with that token (where the prompt's answer is cut in another way: with its first byte,
  // spaces aside). Empty where the prompt does not hold the answer (addition), and for rows of a file.
  std::vector<std::int64_t> sources;
};

// Sample `index` of a task with one answer (niah_single_*, niah_multikey_*), in the base prompt form. The pair has
// `length` tokens at most. The distractor is drawn again until the runs differ in the value's tokens only. A pure
// function of the arguments. UserError if the sample does not fit, or no distractor does with this tokenizer.
CounterfactualPair niah_pair(const NiahBuilder& builder, const Corpora& corpora, const text::Tokenizer& tokenizer,
                             NiahTask task, std::int64_t length, std::int64_t index, std::uint64_t seed);

// `pairs` pairs of each of our own probes of general ability: "induction" (copying what followed the same word before),
// "addition" (two-digit numbers) and "fact" (a fact stated in the context, swapped). A pure function of the arguments.
std::vector<CounterfactualPair> general_pairs(const text::Tokenizer& tokenizer, std::int64_t pairs, std::uint64_t seed);

// JSONL rows {"clean", "corrupt", "answer+", "answer-"} of text, and "probe" (default: the file's name without
// extension): answer+ continues `clean`, answer- continues `corrupt`. The pairs of a probe stand
// together in the result. UserError naming file and line: an unknown or missing key, a value that is no text, an unfit
// probe name, clean = corrupt, texts or answers whose token counts differ, answers that are equal or share a token with
// the prompt's end; and a file without rows.
std::vector<CounterfactualPair> read_pairs(const std::filesystem::path& file, const text::Tokenizer& tokenizer);

}  // namespace hydra::data
