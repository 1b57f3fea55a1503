// The published cases of the Qwen3 tokenizer (ids by the Rust tokenizers library) against the real tokenizer.json.

#include <gtest/gtest.h>

#include <iostream>

#include "hydrahead/base/json.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/text/chat_template.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "hydrahead/text/unicode.hpp"
#include "tests/support/qwen3_tokenizer.hpp"

namespace hydra::text {
namespace {

using Ids = std::vector<TokenId>;

const Json& cases() {
  static const Json all = read_json_file(std::string(HYDRA_FIXTURES) + "/tokenizer/cases.json");
  return all;
}

const Tokenizer& qwen3() {
  static const Tokenizer tokenizer = Tokenizer::parse(test::qwen3_tokenizer_json()).value_or_fail("qwen3");
  return tokenizer;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string hash_of(const Ids& ids) {
  return sha256_hex({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)});
}

TEST(TokenizerCases, FileAndRange) {
  EXPECT_EQ(qwen3().sha256(), cases()["tokenizer_json_sha256"]);
  EXPECT_EQ(qwen3().id_limit(), 151669);
  EXPECT_EQ(qwen3().id_of("<|im_end|>"), 151645);
  EXPECT_EQ(qwen3().id_of(" Hello"), 21927);
  EXPECT_EQ(qwen3().id_of("<|im_start"), std::nullopt);
  EXPECT_TRUE(qwen3().is_special(151643));
  EXPECT_FALSE(qwen3().is_special(151667));  // <think>
  EXPECT_EQ(qwen3().bytes_of(151669), "");
  EXPECT_EQ(qwen3().decode(Ids{-1, 151669, 151935, 64}), "a");
}

TEST(TokenizerCases, Strings) {
  ASSERT_EQ(cases()["cases"].size(), 58u);
  for (const Json& entry : cases()["cases"]) {
    const std::string text = from_hex(entry["utf8_hex"]);
    const Ids ids = qwen3().encode(text);
    EXPECT_EQ(ids, entry["ids"].get<Ids>()) << entry["name"];
    if (entry.contains("decoded")) {
      EXPECT_EQ(qwen3().decode(ids), entry["decoded"].get<std::string>()) << entry["name"];
    }
  }
}

TEST(TokenizerCases, InvalidUtf8) {
  for (const Json& entry : cases()["invalid"]) {
    const Ids ids = qwen3().encode(from_hex(entry["bytes_hex"]));
    EXPECT_EQ(ids, entry["ids"].get<Ids>()) << entry["name"];
    EXPECT_EQ(qwen3().decode(ids), entry["text"].get<std::string>()) << entry["name"];
  }
}

TEST(TokenizerCases, Decode) {
  for (const Json& entry : cases()["decode"]) {
    const Ids ids = entry["ids"].get<Ids>();
    for (const bool skip : {false, true}) {
      const std::string expected = entry[skip ? "text_skip_special" : "text"];
      EXPECT_EQ(qwen3().decode(ids, skip), expected) << entry["name"];
      StreamDecoder stream(qwen3(), skip);
      std::string streamed;
      for (const TokenId id : ids) {
        streamed += stream.push(id);
      }
      EXPECT_EQ(streamed + stream.finish(), expected) << entry["name"];
    }
  }
}

TEST(TokenizerCases, Long) {
  for (const Json& entry : cases()["long"]) {
    std::string text;
    for (int i = 0; i < entry["count"]; ++i) {
      text += (i > 0 ? entry["sep"].get<std::string>() : "") + entry["unit"].get<std::string>();
    }
    text += entry.value("suffix", "");
    ASSERT_EQ(sha256_hex(text), entry["text_sha256"]) << entry["name"];
    const Ids ids = qwen3().encode(text);
    EXPECT_EQ(ids.size(), entry["num_ids"]) << entry["name"];
    EXPECT_EQ(hash_of(ids), entry["ids_u32le_sha256"]) << entry["name"];
  }
}

TEST(TokenizerCases, Chats) {
  for (const Json& entry : cases()["chat"]) {
    const Json& options = entry["options"];
    const std::string rendered =
        render_chat(entry["messages"], options.value("tools", Json()),
                    {options.value("add_generation_prompt", false), options.value("enable_thinking", true)});
    EXPECT_EQ(rendered, entry["rendered"].get<std::string>()) << entry["name"];
    EXPECT_EQ(qwen3().encode(rendered), entry["ids"].get<Ids>()) << entry["name"];
  }
}

// Ids here depend on the version of the Unicode tables; the reference's are Unicode 16 (letters) and 9 (NFC).
TEST(TokenizerCases, VersionDependentSidesArePrinted) {
  std::cout << "tables here: " << unicode_versions() << "\n";
  for (const Json& entry : cases()["version_dependent"]) {
    const std::string text = from_hex(entry["utf8_hex"]);
    const Ids ids = qwen3().encode(text);
    std::cout << entry["name"].get<std::string>() << ": "
              << (ids == entry["ids"].get<Ids>() ? "as the reference" : "other ids") << "\n";
    EXPECT_FALSE(ids.empty());
  }
}

}  // namespace
}  // namespace hydra::text
