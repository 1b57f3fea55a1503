#pragma once
// Byte-level BPE from a Hugging Face tokenizer.json (evaluation.md section 9): added tokens are cut out first, then NFC
// per segment, the file's regex (PCRE2), byte-level BPE by merge rank. Thread-safe after loading.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/base/expected.hpp"
#include "hydrahead/text/vocabulary.hpp"

namespace hydra::text {

struct EncodeOptions {
  // Text that spells an added token becomes that token (HF behaviour). false: it stays ordinary text (corpora).
  bool parse_added_tokens = true;
  // Apply the post-processor's template (Llama-3's leading <|begin_of_text|>); nothing for Qwen3.
  bool add_special_tokens = false;
};

class Tokenizer {
 public:
  // Reads <dir>/tokenizer.json (or the file itself). UserError names the field that is not understood.
  static Tokenizer load(const std::filesystem::path& dir_or_file);
  // From the content of a tokenizer.json.
  static Expected<Tokenizer> parse(std::string_view json);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 becomes U+FFFD first, one per maximal bad part.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Malformed byte sequences become U+FFFD; ids without text decode to nothing. skip_special drops tokens with
  // special=true.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;
  // Raw bytes of one id (added tokens: their content); empty for ids without text.
  std::string_view bytes_of(TokenId id) const;
  bool is_special(TokenId id) const;
  std::optional<TokenId> id_of(
      std::string_view token_content) const;  // an added token, or a vocabulary entry in plain bytes
  std::int64_t id_limit() const;              // largest id + 1
  const std::string& sha256() const;          // of tokenizer.json

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Decodes ids one by one and holds back an incomplete UTF-8 tail.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(tokenizer), skip_special_(skip_special) {}
  std::string push(TokenId id);  // the text that is complete now
  std::string finish();          // what is left, malformed parts as U+FFFD

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace hydra::text
