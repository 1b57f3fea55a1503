// Everything in a tokenizer.json that is not understood is refused by name.

#include "hydrahead/text/tokenizer_json.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "hydrahead/text/tokenizer.hpp"
#include "tests/support/small_tokenizer.hpp"

namespace hydra::text {
namespace {

struct Refusal {
  std::string field;  // that the message names
  std::function<void(Json&)> spoil;
};

TEST(TokenizerJson, RefusalsNameTheField) {
  const std::vector<Refusal> refusals = {
      {"version", [](Json& root) { root["version"] = "2.0"; }},
      {"truncation",
       [](Json& root) {
         root["truncation"] = {{"max_length", 5}};
       }},
      {"padding",
       [](Json& root) {
         root["padding"] = {{"strategy", "BatchLongest"}};
       }},
      {"extra", [](Json& root) { root["extra"] = 1; }},
      {"model.type", [](Json& root) { root["model"]["type"] = "WordPiece"; }},
      {"model.dropout", [](Json& root) { root["model"]["dropout"] = 0.1; }},
      {"model.unk_token", [](Json& root) { root["model"]["unk_token"] = "<unk>"; }},
      {"model.byte_fallback", [](Json& root) { root["model"]["byte_fallback"] = true; }},
      {"model.end_of_word_suffix", [](Json& root) { root["model"]["end_of_word_suffix"] = "</w>"; }},
      {"model.ignore_merges", [](Json& root) { root["model"]["ignore_merges"] = "yes"; }},
      {"model.vocab", [](Json& root) { root["model"].erase("vocab"); }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"] = 3; }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"].erase("a"); }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"]["zz"] = 256; }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"]["zz"] = -1; }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"]["zz"] = 4000000000000; }},
      {"model.vocab", [](Json& root) { root["model"]["vocab"]["zz"] = "1"; }},
      {"model.merges", [](Json& root) { root["model"].erase("merges"); }},
      {"model.merges", [](Json& root) { root["model"]["merges"] = {"t h e"}; }},
      {"model.merges",
       [](Json& root) {
         root["model"]["merges"] = Json::array({Json::array({"t", "h", "e"})});
       }},
      {"model.merges", [](Json& root) { root["model"]["merges"] = {1}; }},
      {"model.merges[0]", [](Json& root) { root["model"]["merges"] = {"a b"}; }},
      {"model.merges[1]",
       [](Json& root) {
         root["model"]["merges"] = {"t h", "t h"};
       }},
      {"added_tokens[0].lstrip", [](Json& root) { root["added_tokens"][0]["lstrip"] = true; }},
      {"added_tokens[2].single_word", [](Json& root) { root["added_tokens"][2]["single_word"] = true; }},
      {"added_tokens[1].id", [](Json& root) { root["added_tokens"][1]["id"] = 257; }},
      {"added_tokens[1].id", [](Json& root) { root["added_tokens"][1]["id"] = 1e9; }},
      {"added_tokens[1]", [](Json& root) { root["added_tokens"][1]["content"] = ""; }},
      {"added_tokens[1].id", [](Json& root) { root["added_tokens"][1]["content"] = "the"; }},
      {"normalizer.type", [](Json& root) { root["normalizer"]["type"] = "Lowercase"; }},
      {"normalizer", [](Json& root) { root["normalizer"] = 5; }},
      {"pre_tokenizer.pretokenizers[0].type",
       [](Json& root) {
         root["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Digits"}, {"individual_digits", true}};
       }},
      {"pre_tokenizer.pretokenizers[0].behavior",
       [](Json& root) { root["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }},
      {"pre_tokenizer.pretokenizers[0].invert",
       [](Json& root) { root["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }},
      {"pre_tokenizer.pretokenizers[0].pattern.String",
       [](Json& root) {
         root["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", " "}};
       }},
      {"pre_tokenizer.pretokenizers[1].add_prefix_space",
       [](Json& root) { root["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }},
      {"pre_tokenizer", [](Json& root) { root["pre_tokenizer"] = nullptr; }},
      {"pre_tokenizer", [](Json& root) { root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"; }},
      {"post_processor.type", [](Json& root) { root["post_processor"]["type"] = "BertProcessing"; }},
      {"post_processor.single",
       [](Json& root) {
         root["post_processor"] = {{"type", "TemplateProcessing"}};
       }},
      {"decoder.type", [](Json& root) { root["decoder"]["type"] = "Metaspace"; }},
  };
  for (const Refusal& refusal : refusals) {
    Json root = test::small_tokenizer();
    refusal.spoil(root);
    const auto tokenizer = Tokenizer::parse(root.dump());
    ASSERT_FALSE(tokenizer) << refusal.field;
    EXPECT_EQ(tokenizer.error().substr(0, refusal.field.size()), refusal.field) << tokenizer.error();
  }
}

TEST(TokenizerJson, RefusesBrokenJson) {
  for (const std::string text : {"", "{", "[]", "17", R"({"model": 1, "model": 2})", "{\"version\": \"\xFF\"}",
                                 R"({"model": {"vocab": {"a": 1}, "vocab": {}}})"}) {
    EXPECT_FALSE(parse_tokenizer_json(text)) << text;
  }
  EXPECT_FALSE(parse_tokenizer_json(std::string(100000, '[')));
}

TEST(TokenizerJson, MergesAsPairsOrStrings) {
  Json root = test::small_tokenizer();
  const auto strings = parse_tokenizer_json(root.dump());
  root["model"]["merges"] =
      Json::array({Json::array({"t", "h"}), Json::array({"th", "e"}), Json::array({spelling_of_bytes(" "), "the"})});
  const auto pairs = parse_tokenizer_json(root.dump());
  ASSERT_TRUE(strings && pairs);
  ASSERT_EQ(strings->merges.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(strings->merges[i].left, pairs->merges[i].left);
    EXPECT_EQ(strings->merges[i].right, pairs->merges[i].right);
    EXPECT_EQ(strings->merges[i].result, pairs->merges[i].result);
  }
}

TEST(TokenizerJson, SpellingOfBytesIsABijection) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  EXPECT_EQ(bytes_of_spelling(spelling_of_bytes(all)), all);
  EXPECT_EQ(spelling_of_bytes(" \n"), "\xC4\xA0\xC4\x8A");  // U+0120 U+010A
  EXPECT_EQ(bytes_of_spelling("\xE4\xB8\x89"), std::nullopt);
}

}  // namespace
}  // namespace hydra::text
