// Probes of general ability: the texts are read back from the tokens and solved here.

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "hydrahead/data/corpora.hpp"
#include "hydrahead/data/counterfactual.hpp"
#include "tests/support/small_tokenizer.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<text::TokenId>;

text::Tokenizer byte_tokenizer() {
  return text::Tokenizer::parse(test::small_tokenizer().dump()).value_or_fail("test");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word.ends_with('.') ? word.substr(0, word.size() - 1) : word);
  }
  return words;
}

struct Solved {
  std::string answer;
  std::string source;  // what the prompt says up to and with the answer; empty: the answer is not there
};

// What should follow the prompt.
Solved solve(const std::string& probe, const std::string& prompt) {
  const std::vector<std::string> lines = lines_of(prompt);
  if (probe == "induction") {
    const std::vector<std::string> list = words_of(lines.at(0)), again = words_of(lines.at(1));
    EXPECT_EQ(list.size(), 12u);  // two words and the ten of the list
    EXPECT_EQ(std::set<std::string>(list.begin(), list.end()).size(), 12u);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), list.begin()));
    EXPECT_GE(again.size(), 2u + 4u);
    return {" " + list.at(again.size()), lines[1] + " " + list.at(again.size())};
  }
  if (probe == "addition") {
    EXPECT_EQ(lines.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      std::smatch found;
      EXPECT_TRUE(std::regex_match(lines[i], found, std::regex(R"(([1-9]\d) \+ ([1-9]\d) =( [1-9]\d)?)"))) << lines[i];
      EXPECT_EQ(found[3].matched, i < 4);
      const std::string sum = " " + std::to_string(std::stoi(found[1]) + std::stoi(found[2]));
      if (i == 4) {
        return {sum, ""};
      }
      EXPECT_EQ(found[3], sum);
    }
  }
  if (probe == "fact") {
    const std::regex stated(R"((\w+) lives in( \w+)\. )");
    std::map<std::string, std::string> town;
    std::set<std::string> towns;
    for (std::sregex_iterator it(prompt.begin(), prompt.end(), stated), end; it != end; ++it) {
      town[(*it)[1]] = (*it)[2];
      towns.insert((*it)[2]);
    }
    EXPECT_EQ(town.size(), 4u);
    EXPECT_EQ(towns.size(), 4u);
    std::smatch asked;
    EXPECT_TRUE(std::regex_search(prompt, asked, std::regex(R"((\w+) lives in$)"))) << prompt;
    const std::string answer = town.at(asked[1]);
    return {answer, prompt.substr(0, prompt.find(asked.str() + answer)) + asked.str() + answer};
  }
  ADD_FAILURE() << probe;
  return {};
}

void expect_sound(const CounterfactualPair& pair, const text::Tokenizer& tokenizer) {
  SCOPED_TRACE(pair.id);
  ASSERT_EQ(pair.clean.size(), pair.corrupt.size());
  ASSERT_FALSE(pair.rows.empty());
  const std::string clean = tokenizer.decode(pair.clean), corrupt = tokenizer.decode(pair.corrupt);
  // The prompt ends where all probes end; what follows is the answer but for its last token.
  const std::string mark = pair.probe == "addition" ? "=" : pair.probe == "fact" ? "lives in" : "";
  std::string prompt = clean, other = corrupt;
  if (!mark.empty()) {
    prompt = clean.substr(0, clean.rfind(mark) + mark.size());
    other = corrupt.substr(0, corrupt.rfind(mark) + mark.size());
  } else {  // whole words that repeat the list
    const std::vector<std::string> lines = lines_of(clean);
    const std::size_t asked = static_cast<std::size_t>(
        std::mismatch(lines[0].begin(), lines[0].end(), lines_of(corrupt)[0].begin()).first - lines[0].begin());
    const std::size_t end = lines[0].rfind(' ', asked == 0 ? 0 : asked);
    prompt = lines[0] + "\n" + lines[0].substr(0, end);
    other = lines_of(corrupt)[0] + "\n" + lines[0].substr(0, end);
  }
  const Solved right = solve(pair.probe, prompt), wrong = solve(pair.probe, other);
  EXPECT_NE(right.answer, wrong.answer);
  const Ids full = tokenizer.encode(prompt + right.answer), full_other = tokenizer.encode(other + wrong.answer);
  const std::size_t begin = tokenizer.encode(prompt).size();
  ASSERT_EQ(full.size(), full_other.size()) << clean;
  EXPECT_EQ(pair.clean, Ids(full.begin(), full.end() - 1));
  Ids corrupt_run(full_other.begin(), full_other.begin() + static_cast<std::ptrdiff_t>(begin));
  corrupt_run.insert(corrupt_run.end(), full.begin() + static_cast<std::ptrdiff_t>(begin), full.end() - 1);
  EXPECT_EQ(pair.corrupt, corrupt_run);

  std::vector<std::int64_t> rows, sources;
  Ids answer, distractor;
  const std::size_t source_end = tokenizer.encode(right.source).size();
  for (std::size_t t = begin; t < full.size(); ++t) {
    if (full[t] != full_other[t]) {
      rows.push_back(static_cast<std::int64_t>(t) - 1);
      answer.push_back(full[t]);
      distractor.push_back(full_other[t]);
      if (!right.source.empty()) {
        sources.push_back(static_cast<std::int64_t>(source_end - (full.size() - t)));
        EXPECT_EQ(full[source_end - (full.size() - t)], full[t]);
      }
    }
  }
  EXPECT_EQ(pair.rows, rows);
  EXPECT_EQ(pair.answer, answer);
  EXPECT_EQ(pair.distractor, distractor);
  EXPECT_EQ(pair.sources, sources);
}

void expect_all_sound(const text::Tokenizer& tokenizer) {
  constexpr std::int64_t count = 100;
  const std::vector<CounterfactualPair> pairs = general_pairs(tokenizer, count, 3);
  ASSERT_EQ(pairs.size(), 3u * count);
  const char* const probes[] = {"induction", "addition", "fact"};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string probe = probes[i / count];
    EXPECT_EQ(pairs[i].probe, probe);
    EXPECT_EQ(pairs[i].id, probe + "/" + std::to_string(i % count));
    EXPECT_EQ(pairs[i].capability, "general");
    expect_sound(pairs[i], tokenizer);
  }
}

TEST(GeneralPairs, AreSoundForASmallTokenizer) { expect_all_sound(test::nano_tokenizer()); }
TEST(GeneralPairs, AreSoundForQwen3sTokenizer) { expect_all_sound(test::qwen3_tokenizer()); }
TEST(GeneralPairs, AreSoundForBytes) { expect_all_sound(byte_tokenizer()); }

TEST(GeneralPairs, AreAFunctionOfTheirArguments) {
  const auto few = general_pairs(test::nano_tokenizer(), 3, 11), many = general_pairs(test::nano_tokenizer(), 9, 11);
  const auto reseeded = general_pairs(test::nano_tokenizer(), 3, 12);
  for (std::size_t probe = 0; probe < 3; ++probe) {
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(few[3 * probe + i].clean, many[9 * probe + i].clean);
      EXPECT_EQ(few[3 * probe + i].corrupt, many[9 * probe + i].corrupt);
      EXPECT_NE(few[3 * probe + i].clean, reseeded[3 * probe + i].clean);
    }
  }
  std::set<Ids> distinct;
  for (const CounterfactualPair& pair : many) {
    distinct.insert(pair.clean);
  }
  EXPECT_EQ(distinct.size(), many.size());
}

}  // namespace
}  // namespace hydra::data
