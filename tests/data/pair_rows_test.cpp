// Pairs of the user's own: what a row becomes, and each refusal with its file, line and finding.

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/counterfactual.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<text::TokenId>;

constexpr const char* good =
    R"({"clean": "3 and 4 are", "corrupt": "3 and 5 are", "answer+": " 3 4", "answer-": " 3 5"})";

class PairRows : public testing::Test {
 protected:
  std::vector<CounterfactualPair> read(const std::string& content, const std::string& name = "sums.jsonl") {
    std::ofstream(dir_.path() / name, std::ios::binary) << content;
    return read_pairs(dir_.path() / name, test::qwen3_tokenizer());
  }
  // The second line is wrong, and what makes it so is named.
  void expect_finding(const std::string& line, std::vector<std::string> pieces) {
    pieces.insert(pieces.end(), {"found ", "xpected "});
    expect_refused(line, pieces);
  }
  void expect_refused(const std::string& line, const std::vector<std::string>& pieces) {
    const std::string message = test::refusal([&] { read(std::string(good) + "\n" + line + "\n"); });
    test::expect_pieces(message, {(dir_.path() / "sums.jsonl").string() + ":2: "});
    test::expect_pieces(message, pieces);
  }

 private:
  test::TempDir dir_;
};

TEST_F(PairRows, BecomePairs) {
  const auto pairs = read(std::string(good) + "\n");
  ASSERT_EQ(pairs.size(), 1u);
  const auto ids = [](const char* text) { return test::qwen3_tokenizer().encode(text); };
  EXPECT_EQ(pairs[0].clean, ids("3 and 4 are 3 "));  // of " ", "3", " ", "4" without the last
  EXPECT_EQ(pairs[0].corrupt, ids("3 and 5 are 3 "));
  EXPECT_EQ(pairs[0].rows, (std::vector<std::int64_t>{static_cast<std::int64_t>(pairs[0].clean.size()) - 1}));
  EXPECT_EQ(pairs[0].answer, ids("4"));
  EXPECT_EQ(pairs[0].distractor, ids("5"));
  EXPECT_TRUE(pairs[0].sources.empty());
  EXPECT_EQ(pairs[0].probe, "sums");
  EXPECT_EQ(pairs[0].capability, "general");
}

// The pairs of a probe stand together, ids are distinct, blank lines and line ends of either kind are no rows.
TEST_F(PairRows, AreGroupedByProbe) {
  const auto row = [](const std::string& probe, const std::string& a, const std::string& b) {
    return R"({"clean": "Say )" + a + R"(:", "corrupt": "Say )" + b + R"(:", "answer+": " )" + a +
           R"(", "answer-": " )" + b + R"(")" + (probe.empty() ? "" : R"(, "probe": ")" + probe + "\"") + "}";
  };
  const auto pairs = read(row("say", "yes", "no") + "\r\n\n" + row("", "red", "blue") + "\n  \n" +
                          row("say", "no", "yes") + "\n" + row("", "blue", "red"));
  ASSERT_EQ(pairs.size(), 4u);
  const std::vector<std::string> probes = {"say", "say", "sums", "sums"};
  const std::vector<std::string> clean = {"Say yes:", "Say no:", "Say red:", "Say blue:"};
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pairs[i].probe, probes[i]);
    EXPECT_EQ(test::qwen3_tokenizer().decode(pairs[i].clean), clean[i]);
    ids.insert(pairs[i].id);
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST_F(PairRows, LinesThatAreNoRowsAreRefused) {
  expect_refused("{", {"not valid JSON"});
  expect_finding(R"(["clean"])", {"found array", "expected an object"});
  expect_refused(std::string(good) + " 5", {"not valid JSON"});
  expect_refused(R"({"clean": "a", "clean": "b", "corrupt": "b", "answer+": " a", "answer-": " b"})",
                 {"duplicate key \"clean\""});
}

TEST_F(PairRows, KeysAreStrict) {
  expect_finding(R"({"clean": "a", "corrupt": "b", "answer+": " a", "answer-": " b", "weight": "2"})",
                 {"the key weight", "clean, corrupt, answer+, answer- and probe"});
  const std::string row = R"({"clean": "Say yes:", "corrupt": "Say no:", "answer+": " yes", "answer-": " no"})";
  for (const std::string key : {"clean", "corrupt", "answer+", "answer-"}) {
    Json parsed = *parse_json(row);
    parsed.erase(key);
    expect_finding(parsed.dump(), {key + ": found nothing", "expected text"});
    parsed[key] = 7;
    expect_finding(parsed.dump(), {key + ": found 7", "expected text"});
    parsed[key] = nullptr;
    expect_finding(parsed.dump(), {key + ": found null"});
    parsed[key] = "";
    expect_finding(parsed.dump(), {key + ": found \"\""});
  }
  Json parsed = *parse_json(row);
  parsed["probe"] = 3;
  expect_finding(parsed.dump(), {"probe: found 3", "expected text"});
  for (const std::string name : {"", "a/b", "a|b", "a\nb"}) {
    parsed["probe"] = name;
    expect_finding(parsed.dump(), {"probe: found '" + name + "'", "expected a name"});
  }
  parsed["probe"] = std::string(101, 'x');
  expect_finding(parsed.dump(), {"100 bytes"});
}

TEST_F(PairRows, TextsMustMakeAPair) {
  expect_finding(R"({"clean": "Say yes:", "corrupt": "Say yes:", "answer+": " yes", "answer-": " no"})",
                 {"the same tokens in clean and corrupt"});
  expect_finding(R"({"clean": "Say yes:", "corrupt": "Say no:", "answer+": " yes", "answer-": " yes"})",
                 {"the same tokens in answer+ and answer-"});
  expect_finding(R"({"clean": "Say 12:", "corrupt": "Say 123:", "answer+": " yes", "answer-": " no"})",
                 {"found 5 tokens in clean and 6 in corrupt"});
  expect_finding(R"({"clean": "Say 1:", "corrupt": "Say 2:", "answer+": " 12", "answer-": " 123"})",
                 {"found 3 tokens in answer+ and 4 in answer-"});
  expect_finding(R"({"clean": "Say yes: ", "corrupt": "Say no: ", "answer+": "yes", "answer-": "no"})",
                 {"answer+: found 'yes'", "the end of clean"});
  expect_finding(R"({"clean": "Say yes: ", "corrupt": "Say no: ", "answer+": "yes or no", "answer-": "no or yes"})",
                 {"answer+: found 'yes or no'", "the end of clean"});
  expect_finding(R"({"clean": "Say yes:", "corrupt": "Say no: ", "answer+": " yes", "answer-": "no"})",
                 {"answer-: found 'no'", "the end of corrupt"});
}

TEST_F(PairRows, FilesWithoutRowsAreRefused) {
  for (const char* content : {"", "\n \n"}) {
    test::expect_pieces(test::refusal([&] { read(content); }),
                        {"sums.jsonl", "found no rows", "expected at least one"});
  }
  test::expect_pieces(test::refusal([&] { read_pairs("/nowhere/rows.jsonl", test::qwen3_tokenizer()); }),
                      {"/nowhere/rows.jsonl"});
}

}  // namespace
}  // namespace hydra::data
