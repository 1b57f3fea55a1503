#pragma once
// The wording of NIAH (evaluation.md section 2): the eight tasks, the prompt around the haystack in its singular and
// plural forms, the needle's sentence, and the chat wrappers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/data/niah.hpp"

namespace hydra::data {

enum class HaystackKind { noise, essay, needle };
enum class ItemKind { words, numbers, uuids };

struct NiahSpec {
  std::string_view name;
  HaystackKind haystack;
  ItemKind key, value;
  int keys, values, queries;  // values is a key's number of values
};
const NiahSpec& niah_spec(NiahTask task);

inline constexpr std::string_view noise_sentences[] = {"The grass is green.", "The sky is blue.", "The sun is yellow.",
                                                       "Here we go.", "There and back again."};

// The five sentences joined by spaces.
const std::string& noise_line();

// The text before the haystack (with the newline after it), the question after it (without the newline before it), and
// the start of the answer, which begins with a space.
struct NiahPrompt {
  std::string head, question, answer_prefix;
};
NiahPrompt niah_prompt(ItemKind value, bool plural, const std::vector<std::string>& query);

std::string needle_sentence(ItemKind value, std::string_view key, std::string_view number);

// "a", "a, and b", "a, b, c, and d": RULER's rule for any number of items.
std::string join_with_and(const std::vector<std::string>& items);

// The chat form around the task text: before and after it.
struct ChatWrapper {
  std::string before, after;
};
ChatWrapper chat_wrapper(const NiahOptions& options);

}  // namespace hydra::data
