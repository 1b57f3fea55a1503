// Probes of general ability in wording of our own, each a few lines long: a head that they need keeps full attention
// even if no needle needs it (method.md 3.1).

#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"
#include "pair_tokens.hpp"

namespace hydra::data {
namespace {

constexpr std::uint32_t general_stream = 0x67656e65;  // "gene"
constexpr int most_draws = 1000;

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

std::vector<std::string> distinct(const std::vector<std::string>& words, std::uint32_t count, RandomStream& random) {
  std::vector<std::string> drawn;
  for (const std::uint32_t i : random.sample(static_cast<std::uint32_t>(words.size()), count)) {
    drawn.push_back(words[i]);
  }
  return drawn;
}

// A list of words, and its beginning again up to the word that is asked for.
PairTexts induction(RandomStream& random) {
  static const std::vector<std::string> nouns = words_of(built_in_nouns);
  constexpr std::uint32_t length = 10;
  const std::vector<std::string> words = distinct(nouns, length + 1, random);
  const std::uint32_t asked = 4 + random.below(length - 4);
  std::string before = "These are", after;  // no nouns, which the list may hold
  for (std::uint32_t i = 0; i < length; ++i) {
    (i < asked ? before : after) += i == asked ? "" : " " + words[i];
  }
  const auto text = [&](const std::string& word) { return before + word + after + ".\n" + before; };
  const std::string answer = " " + words[asked], distractor = " " + words[length];
  return {text(answer), text(distractor), answer, distractor, before + answer};
}

// Worked sums of two-digit numbers, then one to do; another first operand gives another result.
PairTexts addition(RandomStream& random) {
  const auto operand = [&] { return 10 + random.below(40); };
  std::string examples;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t a = operand(), b = operand();
    examples += detail::concat(a, " + ", b, " = ", a + b, "\n");
  }
  const std::uint32_t a = operand(), b = operand(), other = operand();
  return {detail::concat(examples, a, " + ", b, " ="), detail::concat(examples, other, " + ", b, " ="),
          detail::concat(" ", a + b), detail::concat(" ", other + b), ""};
}

// Who lives where, with two people's towns exchanged.
PairTexts fact(RandomStream& random) {
  static const std::vector<std::string> people = words_of("Anna Bruno Clara David Emma Felix Greta Hugo Irene Jonas");
  static const std::vector<std::string> towns =
      words_of("London Paris Rome Vienna Berlin Madrid Dublin Oslo Athens Venice Lisbon Geneva");
  const std::vector<std::string> who = distinct(people, 4, random), where = distinct(towns, 4, random);
  const std::uint32_t asked = random.below(4), exchanged = (asked + 1 + random.below(3)) % 4;
  const auto says = [&](std::uint32_t person) { return who[person] + " lives in"; };
  const auto text = [&](bool swapped) {
    std::string facts;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t town = swapped && i == asked ? exchanged : swapped && i == exchanged ? asked : i;
      facts += says(i) + " " + where[town] + ". ";
    }
    return facts + "So, as was said above, " + says(asked);
  };
  const std::string answer = " " + where[asked];
  return {text(false), text(true), answer, " " + where[exchanged], says(asked) + answer};
}

struct Template {
  const char* name;
  PairTexts (*make)(RandomStream& random);
};
constexpr Template templates[] = {{"induction", induction}, {"addition", addition}, {"fact", fact}};

}  // namespace

std::vector<CounterfactualPair> general_pairs(const text::Tokenizer& tokenizer, std::int64_t pairs,
                                              std::uint64_t seed) {
  std::vector<CounterfactualPair> made;
  std::uint32_t number = 0;
  for (const Template& probe : templates) {
    for (std::int64_t index = 0; index < pairs; ++index) {
      RandomStream random(seed, general_stream, number, static_cast<std::uint32_t>(index));
      int draw = 0;
      for (;; ++draw) {
        HYDRA_REQUIRE(draw < most_draws, "select.general: with this tokenizer no pair of the probe ", probe.name,
                      " has equal token counts; expected general: none");
        const PairTexts texts = probe.make(random);
        if (auto pair = tokenize_pair(texts, tokenizer)) {
          pair->id = detail::concat(probe.name, "/", index);
          pair->probe = probe.name;
          pair->capability = "general";
          made.push_back(*std::move(pair));
          break;
        }
      }
    }
    ++number;
  }
  return made;
}

}  // namespace hydra::data
