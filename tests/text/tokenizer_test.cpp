#include "hydrahead/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "hydrahead/base/random.hpp"
#include "tests/support/cpu_time.hpp"
#include "tests/support/small_tokenizer.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::text {
namespace {

using Ids = std::vector<TokenId>;

Tokenizer make(const Json& root) { return Tokenizer::parse(root.dump()).value_or_fail("tokenizer.json"); }

TEST(Tokenizer, SmallQwenStyle) {
  const Tokenizer tokenizer = make(test::small_tokenizer({{70000, "<|far|>"}}));
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.encode("go <|far|> on"), (Ids{'g', 'o', ' ', 70000, ' ', 'o', 'n'}));
  EXPECT_EQ(tokenizer.id_limit(), 70001);
  EXPECT_EQ(tokenizer.decode(Ids{257, 70000, 261, 69999, -5}), "the<|far|><|im_end|>");
  EXPECT_EQ(tokenizer.decode(Ids{257, 70000, 261}, true), "the");
  EXPECT_EQ(tokenizer.encode("e\xCC\x81"), (Ids{0xC3, 0xA9}));  // NFC
}

TEST(Tokenizer, TextThatSpellsATokenMayStayText) {
  const Tokenizer tokenizer = make(test::small_tokenizer());
  const std::string text = "a<|im_end|>b";
  EXPECT_EQ(tokenizer.encode(text), (Ids{'a', 261, 'b'}));
  const Ids plain = tokenizer.encode(text, {.parse_added_tokens = false});
  EXPECT_EQ(plain.size(), text.size());
  EXPECT_EQ(tokenizer.decode(plain), text);
}

TEST(Tokenizer, OfSeveralAddedTokensTheLeftmostLongestIsCut) {
  const Tokenizer tokenizer = make(test::small_tokenizer({{300, "<a"}, {301, "<a>"}, {302, "a>b"}, {303, "<<"}}));
  EXPECT_EQ(tokenizer.encode("<a>b"), (Ids{301, 'b'}));
  EXPECT_EQ(tokenizer.encode("<ab<<<"), (Ids{300, 'b', 303, '<'}));
  EXPECT_EQ(tokenizer.encode("ca>b"), (Ids{'c', 302}));
}

TEST(Tokenizer, NormalizedAddedTokensMatchAfterNormalization) {
  Json root = test::small_tokenizer({{300, "\xC3\xA9!"}});
  EXPECT_EQ(make(root).encode("e\xCC\x81!"), (Ids{0xC3, 0xA9, '!'}));  // raw text does not spell it
  root["added_tokens"].back()["normalized"] = true;
  EXPECT_EQ(make(root).encode("e\xCC\x81!"), (Ids{300}));
}

TEST(Tokenizer, Llama3Style) {
  const Tokenizer tokenizer = make(test::llama3_style_tokenizer());
  EXPECT_EQ(tokenizer.encode("1234 the"), (Ids{262, '4', 258}));  // whole pre-tokens without their merges
  EXPECT_EQ(tokenizer.encode("the", {.add_special_tokens = true}), (Ids{300, 257}));
  EXPECT_EQ(tokenizer.encode("e\xCC\x81"), (Ids{'e', 0xCC, 0x81}));  // no normalizer
  const std::string text = "It's 12345 <|end_of_text|>\n\n  \xE4\xB8\x89 x";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, Gpt2StyleUsesTheBuiltInPattern) {
  Json root = test::small_tokenizer();
  root["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  EXPECT_EQ(make(root).encode("the the"), (Ids{257, 258}));
}

TEST(Tokenizer, RandomBytesSurviveWithoutNormalizer) {
  const Tokenizer tokenizer = make(test::llama3_style_tokenizer());
  RandomStream random(1, 0);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::uint32_t i = 0, n = random.below(60); i < n; ++i) {
      text += static_cast<char>(random.below(round % 2 == 0 ? 128 : 256));
    }
    const Ids ids = tokenizer.encode(text);
    const std::string decoded = tokenizer.decode(ids);
    EXPECT_EQ(tokenizer.encode(decoded), ids);
    if (round % 2 == 0) {
      EXPECT_EQ(decoded, text);  // ASCII
    }
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const TokenId id : ids) {
      streamed += stream.push(id);
    }
    EXPECT_EQ(streamed + stream.finish(), decoded);
  }
}

TEST(Tokenizer, StreamHoldsBackAnIncompleteCharacter) {
  const Tokenizer tokenizer = make(test::small_tokenizer());
  StreamDecoder stream(tokenizer, false);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xE4), "");
  EXPECT_EQ(stream.push(0xB8), "");
  EXPECT_EQ(stream.push(0x89), "\xE4\xB8\x89");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(stream.push(0xE4), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, ThreadsAgree) {
  const Tokenizer tokenizer = Tokenizer::load(std::string(HYDRA_FIXTURES) + "/qwen3-nano");
  EXPECT_EQ(tokenizer.id_limit(), 4096);
  const std::string text = "It is a truth universally acknowledged, that a single man in possession of a good fortune";
  const Ids expected = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(expected), text);
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          count += tokenizer.encode(text) != expected ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, LongLineWithoutSpacesIsNearLinear) {
  const Tokenizer tokenizer = Tokenizer::load(std::string(HYDRA_FIXTURES) + "/qwen3-nano/tokenizer.json");
  RandomStream random(5, 0);
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) {
    text += static_cast<char>('a' + random.below(26));
  }
  const double start = test::cpu_seconds();
  const Ids ids = tokenizer.encode(text);
  EXPECT_LT(test::cpu_seconds() - start, 30.0);  // quadratic: hours
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(Tokenizer, LoadNamesTheFile) {
  const test::TempDir dir;
  EXPECT_THROW(Tokenizer::load(dir.path()), UserError);
  std::ofstream(dir.path() / "tokenizer.json") << "{\"version\": \"1.0\", \"model\"";
  try {
    Tokenizer::load(dir.path());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("tokenizer.json: not valid JSON"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hydra::text
