// Synthetic retrieval rows: every answer can be found in its haystack, the ids are those of the whole text, rows are
// full.

#include "src/data/retrieval_rows.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/prose.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

constexpr text::TokenId end_token = 4093;

RetrievalRows make(std::int64_t context, bool essay = true, Packing packing = Packing::reset) {
  Corpora corpora = load_corpora();
  corpora.essay = essay ? test::make_prose(20000, 9) : "";
  return RetrievalRows("needles", corpora, context, packing, test::nano_tokenizer(), end_token, 11);
}

std::vector<std::string> split_list(std::string text) {
  text = std::regex_replace(text, std::regex(", and |, "), "\n");
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item);) {
    items.push_back(item);
  }
  return items;
}

// The answer of every question is what the haystack says, in full; returns the number of questions.
int check_document(const std::string& text) {
  const std::size_t first_question = text.find("\nWhat ");
  EXPECT_NE(first_question, std::string::npos) << text;
  const std::string haystack = text.substr(0, first_question);
  std::map<std::string, std::set<std::string>> said;
  const std::regex needle("One of the special magic (?:numbers|uuids) for (\\S+) is: ([0-9a-f-]+)\\.");
  for (std::sregex_iterator it(haystack.begin(), haystack.end(), needle), end; it != end; ++it) {
    said[(*it)[1]].insert((*it)[2]);
  }
  int questions = 0;
  const std::regex round(
      "\nWhat (?:is|are all) the special magic (\\w+) for (.*) mentioned in the provided text\\? The special "
      "magic (\\w+) for (.*) mentioned in the provided text (?:is|are) (.*)\\.(?=\n|$)");
  std::size_t covered = first_question;
  for (std::sregex_iterator it(text.begin() + static_cast<std::ptrdiff_t>(first_question), text.end(), round), end;
       it != end; ++it) {
    const std::smatch& match = *it;
    covered += static_cast<std::size_t>(match.length());
    EXPECT_EQ(match[1], match[3]);
    EXPECT_EQ(match[2], match[4]);
    std::multiset<std::string> expected;
    for (const std::string& key : split_list(match[2])) {
      EXPECT_TRUE(said.contains(key)) << key << "\n" << text;
      expected.insert(said[key].begin(), said[key].end());
    }
    const auto answer = split_list(match[5]);
    EXPECT_EQ(std::multiset<std::string>(answer.begin(), answer.end()), expected) << text;
    const std::string kind = match[1];
    EXPECT_EQ(kind.back() == 's', answer.size() > 1);
    ++questions;
  }
  EXPECT_EQ(covered, text.size());
  EXPECT_GT(questions, 0);
  return questions;
}

class RetrievalRowsOfLength : public testing::TestWithParam<std::int64_t> {};

TEST_P(RetrievalRowsOfLength, AreTrueFullAndExact) {
  const std::int64_t context = GetParam();
  const RetrievalRows rows = make(context);
  std::int64_t tokens = 0, questions = 0, single = 0;
  std::map<std::string, int> kinds;
  constexpr std::uint64_t count = 60;
  for (std::uint64_t index = 0; index < count; ++index) {
    const Row row = rows.row(index);
    ASSERT_LE(std::ssize(row.ids), context);
    ASSERT_EQ(row.ids.size(), row.labels.size());
    ASSERT_EQ(std::accumulate(row.lengths.begin(), row.lengths.end(), std::int64_t{0}), std::ssize(row.ids));
    tokens += std::ssize(row.ids);
    single += row.lengths.size() == 1;
    std::size_t at = 0;
    for (const std::int64_t length : row.lengths) {
      const auto ids = std::span(row.ids).subspan(at, static_cast<std::size_t>(length));
      EXPECT_EQ(ids.back(), end_token);
      EXPECT_EQ(row.labels[at + ids.size() - 1], -1);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        ASSERT_EQ(row.labels[at + i], ids[i + 1]);
      }
      const std::string text = test::nano_tokenizer().decode(ids.first(ids.size() - 1));
      const auto again = test::nano_tokenizer().encode(text);
      EXPECT_TRUE(std::equal(again.begin(), again.end(), ids.begin(), ids.end() - 1)) << text;
      questions += check_document(text);
      kinds[text.find("The grass is green") != std::string::npos     ? "noise"
            : text.find("\nOne of the special") != std::string::npos ? "needle"
                                                                     : "essay"]++;
      kinds[text.find(" uuid") != std::string::npos ? "uuids" : "numbers"]++;
      at += ids.size();
    }
  }
  EXPECT_GE(static_cast<double>(tokens), 0.95 * static_cast<double>(count) * static_cast<double>(context));
  if (context > 256) {  // shorter rows have room for one key only
    EXPECT_GT(questions, static_cast<std::int64_t>(1.4 * count));
    EXPECT_NEAR(static_cast<double>(single), 0.5 * count, 0.25 * count);
    EXPECT_EQ(kinds.size(), 5u);
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, RetrievalRowsOfLength, testing::Values(256, 512, 2048));

TEST(RetrievalRows, WorkWithoutEssayAndJoined) {
  const Row row = make(512, false, Packing::eos_join).row(3);
  ASSERT_EQ(row.lengths.size(), 1u);
  for (std::size_t i = 0; i + 1 < row.ids.size(); ++i) {
    EXPECT_EQ(row.labels[i], row.ids[i + 1]);
  }
  EXPECT_EQ(make(512).row(77).ids, make(512).row(77).ids);
  EXPECT_THROW(make(100), UserError);
}

}  // namespace
}  // namespace hydra::data
