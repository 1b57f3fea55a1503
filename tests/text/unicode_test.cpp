#include "hydrahead/text/unicode.hpp"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "hydrahead/base/random.hpp"

namespace hydra::text {
namespace {

const std::string bad = "\xEF\xBF\xBD";

// U+11A7 is no final consonant, but utf8proc 2.8 drops it behind a syllable as one. Stretches end before it.
constexpr char32_t not_a_final = 0x11A7;

std::string utf8_of(char32_t code) {
  std::string text(4, '\0');
  text.resize(static_cast<std::size_t>(
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), reinterpret_cast<utf8proc_uint8_t*>(text.data()))));
  return text;
}

TEST(Unicode, OneReplacementPerMaximalBadPart) {
  EXPECT_EQ(replace_malformed("a\x80"
                              "b"),
            "a" + bad + "b");
  EXPECT_EQ(replace_malformed("\xE2\x82"), bad);  // cut: one part
  EXPECT_EQ(replace_malformed("\xE2\x82"
                              "a"),
            bad + "a");
  EXPECT_EQ(replace_malformed("\xED\xA0\x80"), bad + bad + bad);                      // surrogate
  EXPECT_EQ(replace_malformed("\xC0\xAF\xE0\x80\xBF"), bad + bad + bad + bad + bad);  // overlong
  EXPECT_EQ(replace_malformed("\xF4\x90\x80\x80"), bad + bad + bad + bad);            // above U+10FFFF
  EXPECT_EQ(replace_malformed("\xF0\x9F\x98 \xF0\x9F\x98\x80"), bad + " \xF0\x9F\x98\x80");
  EXPECT_EQ(replace_malformed(std::string_view("\0\x7F", 2)), std::string_view("\0\x7F", 2));
}

TEST(Unicode, EveryCodePointIsValidAndReadBack) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) {
      continue;
    }
    const std::string text = utf8_of(code);
    std::size_t position = 0;
    ASSERT_EQ(valid_prefix(text), text.size()) << std::hex << static_cast<unsigned>(code);
    ASSERT_EQ(next_code_point(text, position), code);
    ASSERT_EQ(position, text.size());
    ASSERT_EQ(valid_prefix(text.substr(0, text.size() - 1)), 0u);
    ASSERT_EQ(incomplete_tail("x" + text.substr(0, text.size() - 1)), text.size() - 1);
    ASSERT_EQ(incomplete_tail(text), 0u);
  }
  EXPECT_EQ(incomplete_tail("\xED\xA0"), 0u);  // can never become complete
  EXPECT_EQ(incomplete_tail("\x80\x80"), 0u);
}

std::string whole_text(NormalForm form, const std::string& text) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  options |= form == NormalForm::nfkc || form == NormalForm::nfkd ? UTF8PROC_COMPAT : 0;
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  EXPECT_GE(length, 0);
  std::string copy(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
  std::free(result);
  return copy;
}

// The stretches that are left out of normalization must not matter: the result equals that of the whole text.
TEST(Unicode, NormalizingStretchesEqualsNormalizingTheText) {
  const std::vector<char32_t> ranges[] = {{0x20, 0x7E},     {0xC0, 0x17F},     {0x300, 0x36F},   {0x590, 0x5FF},
                                          {0x900, 0x97F},   {0x1100, 0x11FF},  {0x1E00, 0x1FFF}, {0x2100, 0x218F},
                                          {0x3040, 0x30FF}, {0xAC00, 0xAC60},  {0xF900, 0xFFEF}, {0x1D150, 0x1D170},
                                          {0xB00, 0xDFF},   {0x110B0, 0x110C0}};
  for (const NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd}) {
    const Normalizer normalizer(form);
    std::string buffer;
    RandomStream random(7, static_cast<std::uint32_t>(form));
    for (int round = 0; round < 20000; ++round) {
      std::string text;
      for (std::uint32_t i = 0, n = 1 + random.below(12); i < n; ++i) {
        const auto& range = ranges[random.below(std::size(ranges))];
        const char32_t code = range[0] + random.below(static_cast<std::uint32_t>(range[1] - range[0] + 1));
        text += code == not_a_final ? "" : utf8_of(code);
      }
      ASSERT_EQ(normalizer.apply(text, buffer), whole_text(form, text)) << text;
    }
  }
}

TEST(Unicode, KeepsTheVowelThatUtf8procTakesForAFinal) {
  const Normalizer normalizer(NormalForm::nfc);
  std::string buffer;
  const std::string text = utf8_of(0xAC00) + utf8_of(not_a_final);
  EXPECT_EQ(normalizer.apply(text, buffer), text);
}

TEST(Unicode, NormalTextIsNotCopied) {
  const Normalizer normalizer(NormalForm::nfc);
  std::string buffer;
  const std::string text = "caf\xC3\xA9 \xE2\x80\x9Cquoted\xE2\x80\x9D \xE4\xB8\x89";
  EXPECT_EQ(normalizer.apply(text, buffer).data(), text.data());
  EXPECT_EQ(normalizer.apply("xe\xCC\x81y", buffer), "x\xC3\xA9y");
}

}  // namespace
}  // namespace hydra::text
