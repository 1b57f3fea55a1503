#pragma once
// UTF-8 and Unicode normalization. Malformed input is replaced, never refused: one U+FFFD per maximal bad part, as
// WHATWG and Python's errors="replace" do it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::text {

bool is_ascii(std::string_view text);

// Length of the longest prefix that is well-formed UTF-8.
std::size_t valid_prefix(std::string_view text);

// A copy with every maximal bad part replaced by U+FFFD.
std::string replace_malformed(std::string_view text);

// Number of bytes at the end (0-3) that begin a character which may still become complete.
std::size_t incomplete_tail(std::string_view text);

// The code point that starts at `position` of well-formed text; moves `position` behind it.
char32_t next_code_point(std::string_view text, std::size_t& position);

// "letters 14.0 (PCRE2), normalization 15.0 (utf8proc)": characters newer than these tables may get other ids than from
// a tokenizer with newer ones.
std::string unicode_versions();

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Normalization by utf8proc of only the stretches that need it: text may be cut before every character that is starter,
// maps to itself and never combines with what stands before it ("inert" here), so runs of those are copied as they are.
class Normalizer {
 public:
  explicit Normalizer(NormalForm form);
  NormalForm form() const { return form_; }

  // The normalized text: `text` itself if nothing changes, else a view of `buffer`. `text` must be well-formed.
  std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  bool inert(char32_t code) const { return (*inert_)[code]; }

  NormalForm form_;
  const std::vector<bool>* inert_;  // by code point; one table a form, made at its first use
};

}  // namespace hydra::text
