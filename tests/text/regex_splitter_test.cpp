#include "hydrahead/text/regex_splitter.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/cpu_time.hpp"

namespace hydra::text {
namespace {

using Pieces = std::vector<std::string>;

const std::string qwen3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Pieces split(const std::string& pattern, std::string_view text) {
  const RegexSplitter splitter = RegexSplitter::compile(pattern).value_or_fail(pattern);
  RegexSplitter::Scratch scratch(splitter);
  Pieces pieces;
  splitter.split(text, scratch, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(RegexSplitter, QwenPattern) {
  EXPECT_EQ(split(qwen3, "  x"), (Pieces{" ", " x"}));
  EXPECT_EQ(split(qwen3, "  1"), (Pieces{" ", " ", "1"}));
  EXPECT_EQ(split(qwen3, "a.\n\nb"), (Pieces{"a", ".\n\n", "b"}));
  EXPECT_EQ(split(qwen3, "\n \n x"), (Pieces{"\n \n", " x"}));
  EXPECT_EQ(split(qwen3, "I'LL it'\xC5\xBF"), (Pieces{"I", "'LL", " it", "'\xC5\xBF"}));  // U+017F folds to s
  EXPECT_EQ(split(qwen3, "12\xC2\xBD"), (Pieces{"1", "2", "\xC2\xBD"}));
  EXPECT_EQ(split(qwen3, "\tx\xC2\xA0y"), (Pieces{"\tx", "\xC2\xA0y"}));
  EXPECT_EQ(split(qwen3, ""), Pieces{});
}

TEST(RegexSplitter, WhiteSpaceIsThatOfTheStandard) {
  // U+0085 is a space here, U+180E, U+200B and U+FEFF are none.
  EXPECT_EQ(split(R"(\s+)", "a\xC2\x85z"), (Pieces{"a", "\xC2\x85", "z"}));
  EXPECT_EQ(split(R"(\S+)", "a\xE1\xA0\x8E\xE2\x80\x8B\xEF\xBB\xBFz"),
            (Pieces{"a\xE1\xA0\x8E\xE2\x80\x8B\xEF\xBB\xBFz"}));
  EXPECT_EQ(split(R"([^\s]+)", "a\xE3\x80\x80z"), (Pieces{"a", "\xE3\x80\x80", "z"}));
}

TEST(RegexSplitter, WhatDoesNotMatchIsAPieceOfItsOwn) {
  EXPECT_EQ(split("b+", "abbc"), (Pieces{"a", "bb", "c"}));
  EXPECT_EQ(split("x", "abc"), Pieces{"abc"});
  EXPECT_EQ(split("b*",
                  "a\xC3\xA9"
                  "bc"),
            (Pieces{"a", "\xC3\xA9", "b", "c"}));  // an empty match cuts
}

TEST(RegexSplitter, RefusesWhatEnginesReadDifferently) {
  for (const char* pattern :
       {R"(\w+)", R"(a\b)", R"([\S])", R"(\h)", R"(\X)", R"(\R)", R"(\v)", R"([a[b]])", R"([a&&b])", R"(^a)", R"(a$)",
        R"(a{2}+)", R"((?m:.))", R"((*UTF)a)", R"(a\)", R"([]a])", R"([\s-x])"}) {
    const auto translated = translate_pattern(pattern);
    ASSERT_FALSE(translated) << pattern;
    EXPECT_NE(translated.error().find("at offset"), std::string::npos);
  }
  EXPECT_FALSE(RegexSplitter::compile("(a"));
  EXPECT_FALSE(RegexSplitter::compile(R"(\p{NoSuchProperty})"));
  EXPECT_TRUE(RegexSplitter::compile(R"(\p{N}{1,3}|\\s|\x{41}+)"));
}

TEST(RegexSplitter, LongRunsAreLinear) {
  const double start = test::cpu_seconds();
  EXPECT_EQ(split(qwen3, std::string(20'000'000, ' ')).size(), 1u);  // beyond PCRE2's default match limit
  EXPECT_EQ(split(qwen3, std::string(3'000'000, '1')).size(), 3'000'000u);
  EXPECT_LT(test::cpu_seconds() - start, 20.0);
}

}  // namespace
}  // namespace hydra::text
