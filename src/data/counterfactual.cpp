// NIAH pairs: the needle's value, and a value of the same kind and size in its place.

#include "hydrahead/data/counterfactual.hpp"

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "niah_keys.hpp"
#include "niah_text.hpp"
#include "pair_tokens.hpp"

namespace hydra::data {
namespace {

constexpr std::uint32_t pair_stream = 6;  // after those of the samples themselves (niah.cpp)
// One uuid in 5 to 7 has as many tokens as a given one; but the number of one in a thousand is too rare for free draws.
constexpr int free_draws = 1000;
constexpr int most_draws = 2000;

// The value with its digits taken from another one: for uuids whose token count is too rare to be met by chance, since
// tokenizers cut digits evenly and letters by what they spell.
std::string with_digits_of(const std::string& other, std::string value) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < std::min(value.size(), other.size()); ++i) {
    if (is_digit(value[i]) && is_digit(other[i])) {
      value[i] = other[i];
    }
  }
  return value;
}

// Whether the runs differ within these tokens only: the distractor then takes exactly the value's places.
bool differ_only_in(const TokenSpan& span, const CounterfactualPair& pair) {
  const auto equal = [&](std::int64_t begin, std::int64_t end) {
    return std::equal(pair.clean.begin() + begin, pair.clean.begin() + end, pair.corrupt.begin() + begin);
  };
  return equal(0, span.begin) && equal(span.end, static_cast<std::int64_t>(pair.clean.size()));
}

}  // namespace

CounterfactualPair niah_pair(const NiahBuilder& builder, const Corpora& corpora, const text::Tokenizer& tokenizer,
                             NiahTask task, std::int64_t length, std::int64_t index, std::uint64_t seed) {
  const NiahSpec& spec = niah_spec(task);
  const NiahSample sample = builder.sample(task, length, index);
  HYDRA_CHECK(sample.references.size() == 1 && !sample.answer_prefix.empty(), sample.id, ": ", sample.references.size(),
              " answers after '", sample.answer_prefix, "'; expected one, and a prefix that it continues");
  const std::string& value = sample.references.front();
  const std::string prompt = sample.prompt_text + sample.answer_prefix;
  const std::string needle = needle_sentence(spec.value, sample.query.front(), value);
  const std::size_t at = prompt.find(needle) + needle.size() - 1 - value.size();
  const std::size_t value_tokens = tokenizer.encode(" " + value).size();
  RandomStream random(seed, 16 * static_cast<std::uint32_t>(task) + pair_stream, static_cast<std::uint32_t>(index),
                      static_cast<std::uint32_t>(length));
  std::string reason;
  for (int draw = 0; draw < most_draws; ++draw) {
    std::string other = random_item(spec.value, corpora, random);
    if (draw >= free_draws) {
      other = with_digits_of(other, value);
    }
    if (prompt.find(other) != std::string::npos) {
      reason = "the prompt holds the same already";
      continue;
    }
    if (tokenizer.encode(" " + other).size() != value_tokens) {  // spares most draws of uuids the whole prompt
      reason = "the token counts of the values differ";
      continue;
    }
    std::string corrupt = prompt;
    corrupt.replace(at, value.size(), other);
    auto pair =
        tokenize_pair({prompt, corrupt, " " + value, " " + other, needle.substr(0, needle.size() - 1)}, tokenizer);
    if (!pair) {
      reason = pair.error();
      continue;
    }
    if (!differ_only_in(sample.values.front(), *pair)) {
      reason = "tokens around the value change with it";
      continue;
    }
    HYDRA_CHECK(static_cast<std::int64_t>(pair->clean.size()) <= length, sample.id, ": ", pair->clean.size(),
                " tokens with the answer");
    pair->id = sample.id;
    pair->probe = task_name(task);
    pair->capability = spec.keys > 1 || spec.haystack == HaystackKind::needle ? "multi" : "single";
    return *std::move(pair);
  }
  fail_request("select.probes: ", sample.id, ": found no distractor in ", most_draws, " draws (the last one: ", reason,
               "); expected values that this tokenizer cuts into equally many tokens: leave ", task_name(task), " out");
}

}  // namespace hydra::data
