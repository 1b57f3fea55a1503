// NIAH pairs against tokens and texts put together here: where the runs differ, what the rows predict, where the
// sources stand; determinism, draws, refusals.

#include "hydrahead/data/counterfactual.hpp"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "src/data/niah_text.hpp"
#include "src/data/pair_tokens.hpp"
#include "tests/support/prose_corpora.hpp"
#include "tests/support/small_tokenizer.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using test::nano_tokenizer;
using test::qwen3_tokenizer;
using Ids = std::vector<text::TokenId>;

constexpr NiahTask default_tasks[] = {NiahTask::single_1, NiahTask::single_2, NiahTask::single_3, NiahTask::multikey_1,
                                      NiahTask::multikey_2};

const Corpora& corpora() {
  static const Corpora loaded = test::prose_corpora(30000);
  return loaded;
}

const NiahBuilder& builder(const text::Tokenizer& tokenizer) {
  static std::map<const text::Tokenizer*, std::unique_ptr<NiahBuilder>> builders;
  auto& entry = builders[&tokenizer];
  if (!entry) {
    entry = std::make_unique<NiahBuilder>(corpora(), tokenizer, NiahOptions{});
  }
  return *entry;
}

CounterfactualPair make(const text::Tokenizer& tokenizer, NiahTask task, std::int64_t length, std::int64_t index,
                        std::uint64_t seed = 7) {
  return niah_pair(builder(tokenizer), corpora(), tokenizer, task, length, index, seed);
}

std::string text_of(const Ids& ids, const TokenSpan& span, const text::Tokenizer& tokenizer) {
  return tokenizer.decode(
      std::span(ids).subspan(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)));
}

std::string without_space(const std::string& text) { return text.starts_with(' ') ? text.substr(1) : text; }

// Everything that the interface promises of sample `index`, from texts that are tokenized here.
void expect_sound(const text::Tokenizer& tokenizer, NiahTask task, std::int64_t length, std::int64_t index) {
  const NiahSample sample = builder(tokenizer).sample(task, length, index);
  const CounterfactualPair pair = make(tokenizer, task, length, index);
  const bool uuid = niah_spec(task).value == ItemKind::uuids;
  SCOPED_TRACE(sample.id);
  EXPECT_EQ(pair.id, sample.id);
  EXPECT_EQ(pair.probe, task_name(task));
  EXPECT_EQ(pair.capability, pair.probe.starts_with("niah_single") ? "single" : "multi");
  ASSERT_EQ(pair.clean.size(), pair.corrupt.size());
  EXPECT_LE(static_cast<std::int64_t>(pair.clean.size()), length);

  // The distractor is read from the corrupt run, at the tokens where the clean one has the value.
  const TokenSpan span = sample.values.front();
  const std::string value = sample.references.front();
  const std::string other = without_space(text_of(pair.corrupt, span, tokenizer));
  EXPECT_EQ(without_space(text_of(pair.clean, span, tokenizer)), value);
  EXPECT_NE(other, value);
  const std::regex kind(uuid ? "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}" : "[1-9][0-9]{6}");
  EXPECT_TRUE(std::regex_match(other, kind)) << other;
  for (std::size_t t = 0; t < pair.clean.size(); ++t) {
    if (static_cast<std::int64_t>(t) < span.begin || static_cast<std::int64_t>(t) >= span.end) {
      ASSERT_EQ(pair.clean[t], pair.corrupt[t]) << t;
    }
  }

  // Both prompts with their answers, as text.
  const std::string prompt = sample.prompt_text + sample.answer_prefix;
  const std::size_t at = prompt.find(": " + value + ".") + 2;
  std::string changed = prompt;
  changed.replace(at, value.size(), other);
  EXPECT_EQ(changed.find(value), std::string::npos);
  EXPECT_EQ(prompt.find(other), std::string::npos);
  const Ids full = tokenizer.encode(prompt + " " + value), full_other = tokenizer.encode(changed + " " + other);
  ASSERT_EQ(full.size(), full_other.size());
  ASSERT_EQ(Ids(full.begin(), full.end() - 1), pair.clean);
  const auto prompt_size = static_cast<std::ptrdiff_t>(sample.ids.size());
  EXPECT_TRUE(std::equal(full_other.begin(), full_other.begin() + prompt_size, pair.corrupt.begin()));

  std::vector<std::int64_t> rows;
  Ids answer, distractor;
  for (std::size_t t = sample.ids.size(); t < full.size(); ++t) {
    if (full[t] != full_other[t]) {
      rows.push_back(static_cast<std::int64_t>(t) - 1);
      answer.push_back(full[t]);
      distractor.push_back(full_other[t]);
    }
  }
  EXPECT_FALSE(rows.empty());
  EXPECT_EQ(pair.answer_size, static_cast<std::int64_t>(full.size() - sample.ids.size()));
  EXPECT_EQ(pair.rows, rows);
  EXPECT_EQ(pair.answer, answer);
  EXPECT_EQ(pair.distractor, distractor);

  // Both tokenizers cut the value in the needle as they cut it in the answer.
  ASSERT_EQ(pair.sources.size(), rows.size());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    EXPECT_GE(pair.sources[j], span.begin);
    EXPECT_LT(pair.sources[j], span.end);
    EXPECT_EQ(pair.clean[static_cast<std::size_t>(pair.sources[j])], answer[j]);
    // Everything before the token is the same part of the value in both places.
    EXPECT_EQ(without_space(text_of(pair.clean, {span.begin, pair.sources[j]}, tokenizer)),
              without_space(text_of(full, {prompt_size, rows[j] + 1}, tokenizer)));
  }
}

class NiahPairs : public testing::TestWithParam<NiahTask> {};

TEST_P(NiahPairs, AreSoundForManySamplesOfASmallTokenizer) {
  int made = 0;
  for (const std::int64_t length : {256, 320, 512, 1024}) {
    for (std::int64_t index = 0; index < 200; ++index) {
      if (length < 512 && builder(nano_tokenizer()).unfit_reason(GetParam(), length, index + 1)) {
        break;
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(nano_tokenizer(), GetParam(), length, index));
      ++made;
    }
  }
  EXPECT_GE(made, 400);
}

TEST_P(NiahPairs, AreSoundForQwen3sTokenizer) {
  for (std::int64_t index = 0; index < 10; ++index) {
    ASSERT_NO_FATAL_FAILURE(expect_sound(qwen3_tokenizer(), GetParam(), 512, index));
  }
  ASSERT_NO_FATAL_FAILURE(expect_sound(qwen3_tokenizer(), GetParam(), 4096, 3));
}

INSTANTIATE_TEST_SUITE_P(All, NiahPairs, testing::ValuesIn(default_tasks),
                         [](const auto& test) { return std::string(task_name(test.param)); });

// The asked needle, of many.
TEST(NiahPair, UuidsAsKeysWorkToo) { expect_sound(nano_tokenizer(), NiahTask::multikey_3, 1024, 0); }

// Too few uuids have as many tokens as theirs: 5,000 free draws find nothing.
TEST(NiahPair, UuidsWithRareTokenCountsGetDistractorsToo) {
  for (const std::int64_t index : {3366, 4946}) {
    ASSERT_NO_FATAL_FAILURE(expect_sound(nano_tokenizer(), NiahTask::single_3, 320, index));
  }
}

TEST(NiahPair, IsAFunctionOfSeedTaskLengthAndIndex) {
  const CounterfactualPair one = make(nano_tokenizer(), NiahTask::single_3, 512, 5);
  make(nano_tokenizer(), NiahTask::single_3, 512, 6);
  const CounterfactualPair again = make(nano_tokenizer(), NiahTask::single_3, 512, 5);
  const CounterfactualPair reseeded = make(nano_tokenizer(), NiahTask::single_3, 512, 5, 8);
  EXPECT_EQ(one.clean, again.clean);
  EXPECT_EQ(one.corrupt, again.corrupt);
  EXPECT_EQ(one.sources, again.sources);
  EXPECT_EQ(one.clean, reseeded.clean);  // the sample is the builder's
  EXPECT_NE(one.corrupt, reseeded.corrupt);
  EXPECT_NE(one.corrupt, make(nano_tokenizer(), NiahTask::single_3, 512, 4).corrupt);
}

// Samples share neither their distractors nor the place of each among the draws.
TEST(NiahPair, DistractorsDifferFromSampleToSample) {
  std::set<Ids> seen;
  for (std::int64_t index = 0; index < 50; ++index) {
    const NiahSample sample = builder(nano_tokenizer()).sample(NiahTask::single_1, 256, index);
    const CounterfactualPair pair = make(nano_tokenizer(), NiahTask::single_1, 256, index);
    seen.emplace(pair.corrupt.begin() + sample.values[0].begin, pair.corrupt.begin() + sample.values[0].end);
  }
  EXPECT_EQ(seen.size(), 50u);
}

// Llama-3's way: a token before the text, digits in threes.
TEST(NiahPair, ATokenBeforeTheTextMovesEverything) {
  const auto tokenizer = text::Tokenizer::parse(test::llama3_style_tokenizer().dump()).value_or_fail("test");
  const NiahBuilder llama(corpora(), tokenizer, {});
  const CounterfactualPair pair = niah_pair(llama, corpora(), tokenizer, NiahTask::single_2, 2048, 0, 1);
  const NiahSample sample = llama.sample(NiahTask::single_2, 2048, 0);
  EXPECT_EQ(pair.clean.front(), 300);
  for (std::size_t j = 0; j < pair.rows.size(); ++j) {
    EXPECT_EQ(pair.clean[static_cast<std::size_t>(pair.sources[j])], pair.answer[j]);
    EXPECT_GE(pair.sources[j], sample.values[0].begin);
    EXPECT_LT(pair.sources[j], sample.values[0].end);
  }
}

TEST(NiahPair, OtherTasksAndFormsWithoutAnAnswerToContinueAreErrors) {
  EXPECT_THROW(make(nano_tokenizer(), NiahTask::multivalue, 1024, 0), Error);
  NiahOptions thinking;
  thinking.prompt = PromptForm::chat_thinking;
  const NiahBuilder other(corpora(), nano_tokenizer(), thinking);
  EXPECT_THROW(niah_pair(other, corpora(), nano_tokenizer(), NiahTask::single_1, 512, 0, 1), Error);
}

// Joins ": ", " 1", " 2", "13" and "24" in this order, and cuts at line ends only.
text::Tokenizer joining_tokenizer() {
  Json root = test::small_tokenizer();
  const std::string space = text::spelling_of_bytes(" ");
  root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[^\\n]+|\\n";
  root["model"]["merges"] = Json::array();
  int id = 300;
  for (const auto& [left, right] :
       {std::pair(std::string(":"), space), {space, "1"}, {space, "2"}, {"1", "3"}, {"2", "4"}}) {
    root["model"]["vocab"][left + right] = id++;
    root["model"]["merges"].push_back(left + " " + right);
  }
  return text::Tokenizer::parse(root.dump()).value_or_fail("test");
}

// In the needle ": 1319" is ": " "13" "1" "9"; behind the prompt it is " 1" "3" "1" "9".
TEST(PairTokens, SourcesAreFoundByBytesWhereTheNeedleIsCutInAnotherWay) {
  const text::Tokenizer tokenizer = joining_tokenizer();
  const auto pair = tokenize_pair({"is: 1319.\nso", "is: 2467.\nso", " 1319", " 2467", "is: 1319"}, tokenizer);
  ASSERT_TRUE(pair) << pair.error();
  EXPECT_EQ(pair->clean, (Ids{'i', 's', 300, 303, '1', '9', '.', '\n', 's', 'o', 301, '3', '1'}));
  EXPECT_EQ(pair->corrupt, (Ids{'i', 's', 300, 304, '6', '7', '.', '\n', 's', 'o', 301, '3', '1'}));
  EXPECT_EQ(pair->rows, (std::vector<std::int64_t>{9, 10, 11, 12}));
  EXPECT_EQ(pair->answer, (Ids{301, '3', '1', '9'}));
  EXPECT_EQ(pair->distractor, (Ids{302, '4', '6', '7'}));
  EXPECT_EQ(pair->sources, (std::vector<std::int64_t>{3, 3, 4, 5}));
}

TEST(PairTokens, TokensInCommonAreNoRows) {
  const text::Tokenizer tokenizer = joining_tokenizer();
  const auto pair = tokenize_pair({"a 5678\n", "a 5079\n", " 5678", " 5079", ""}, tokenizer);
  ASSERT_TRUE(pair) << pair.error();
  EXPECT_EQ(pair->rows, (std::vector<std::int64_t>{8, 10}));  // 7 tokens, then " ", "5", "6", "7", "8"
  EXPECT_EQ(pair->answer, (Ids{'6', '8'}));
  EXPECT_EQ(pair->distractor, (Ids{'0', '9'}));
  EXPECT_EQ(pair->clean.size(), 7u + 4u);
  EXPECT_TRUE(pair->sources.empty());
}

}  // namespace
}  // namespace hydra::data
