#pragma once
// The base vocabulary of a byte-level tokenizer: id -> bytes and bytes -> id. A tokenizer.json spells bytes in GPT-2's
// byte-level alphabet: 33..126, 161..172, 174..255 stand for themselves, the other 68 in order for U+0100 and up.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::text {

using TokenId = std::int32_t;

// The bytes that `spelling` stands for; nothing if a character is outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);
std::string spelling_of_bytes(std::string_view bytes);

class Vocabulary {
 public:
  static constexpr TokenId max_id = (1 << 24) - 1;

  // False if the id is already taken or outside [0, max_id].
  bool add(TokenId id, std::string_view bytes);
  // Makes `find` know all that was added with `findable`; false if two ids have the same bytes.
  bool build_index(const std::vector<TokenId>& findable);

  TokenId limit() const { return static_cast<TokenId>(spans_.size()); }  // largest id + 1
  bool has(TokenId id) const { return id >= 0 && id < limit() && spans_[id].begin != absent; }
  std::string_view bytes_of(TokenId id) const {  // empty for ids without text
    return has(id) ? std::string_view(bytes_).substr(spans_[id].begin, spans_[id].length) : std::string_view();
  }
  std::optional<TokenId> find(std::string_view bytes) const;

 private:
  static constexpr std::uint32_t absent = UINT32_MAX;
  struct Span {
    std::uint32_t begin = absent, length = 0;
  };
  std::string bytes_;           // of all tokens end to end
  std::vector<Span> spans_;     // by id
  std::vector<TokenId> slots_;  // open addressing by hash_bytes, -1 empty; a power of two
};

}  // namespace hydra::text
