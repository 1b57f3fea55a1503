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
constexpr int most_draws = 1000;          // uuids rarely have equal token counts

// Of each compared answer token the place in the prompt: the token of the needle's value that holds the same byte.
// span: the tokens that hold the value.
std::vector<std::int64_t> places_in_needle(const CounterfactualPair& pair, std::size_t prompt_tokens,
                                           const TokenSpan& span, const std::string& value,
                                           const text::Tokenizer& tokenizer) {
  const std::vector<text::TokenId> needle(pair.clean.begin() + span.begin, pair.clean.begin() + span.end);
  std::string bytes;
  for (const text::TokenId id : needle) {
    bytes += tokenizer.bytes_of(id);
  }
  const std::size_t begin = bytes.find(value);
  HYDRA_CHECK(begin != std::string::npos, pair.id, ": the needle's tokens do not hold ", value);
  std::vector<std::int64_t> places;
  std::size_t byte = 0, next = prompt_tokens;  // of the answer's tokens, which spell " VALUE"
  for (const std::int64_t row : pair.rows) {
    for (; static_cast<std::int64_t>(next) <= row; ++next) {
      byte += tokenizer.bytes_of(pair.clean[next]).size();
    }
    const std::size_t in_value = std::max<std::size_t>(byte, 1) - 1;  // the space belongs to the first byte
    places.push_back(span.begin + token_at_byte(needle, begin + in_value, tokenizer));
  }
  return places;
}

}  // namespace

CounterfactualPair niah_pair(const NiahBuilder& builder, const Corpora& corpora, const text::Tokenizer& tokenizer,
                             NiahTask task, std::int64_t length, std::int64_t index, std::uint64_t seed) {
  const NiahSample sample = builder.sample(task, length, index);
  HYDRA_CHECK(sample.references.size() == 1, sample.id, " has ", sample.references.size(), " answers, not one");
  const std::string& value = sample.references.front();
  const std::string prompt = sample.prompt_text + sample.answer_prefix;
  const std::size_t at = prompt.find(": " + value + ".") + 2;
  HYDRA_CHECK(at < prompt.size() && prompt.compare(at, value.size(), value) == 0, sample.id, ": no needle holds ",
              value);
  RandomStream random(seed, 16 * static_cast<std::uint32_t>(task) + pair_stream, static_cast<std::uint32_t>(index),
                      static_cast<std::uint32_t>(length));
  std::string reason;
  for (int draw = 0; draw < most_draws; ++draw) {
    const std::string other = random_item(niah_spec(task).value, corpora, random);
    std::string corrupt = prompt;
    corrupt.replace(at, value.size(), other);
    auto pair = tokenize_pair({prompt, corrupt, " " + value, " " + other}, tokenizer);
    if (!pair) {
      reason = pair.error();
      continue;
    }
    pair->id = sample.id;
    pair->probe = task_name(task);
    pair->capability =
        niah_spec(task).keys > 1 || niah_spec(task).haystack == HaystackKind::needle ? "multi" : "single";
    pair->sources = places_in_needle(*pair, sample.ids.size(), sample.values.front(), value, tokenizer);
    return *std::move(pair);
  }
  throw Error(detail::concat("select: ", sample.id, ": none of ", most_draws, " distractors fits: ", reason));
}

}  // namespace hydra::data
