#include "hydrahead/text/vocabulary.hpp"

#include <array>
#include <bit>

#include "hash.hpp"
#include "hydrahead/text/unicode.hpp"

namespace hydra::text {
namespace {

struct Alphabet {
  std::array<char32_t, 256> code_of{};
  std::array<std::int16_t, 324> byte_of{};  // -1: not in the alphabet

  Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      code_of[byte] = itself ? static_cast<char32_t>(byte) : next++;
      byte_of[code_of[byte]] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  const Alphabet& letters = alphabet();
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size();) {
    const char32_t code = next_code_point(spelling, i);
    if (code >= letters.byte_of.size() || letters.byte_of[code] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(letters.byte_of[code]);
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) {
    const char32_t code = alphabet().code_of[static_cast<unsigned char>(byte)];
    if (code < 0x80) {
      spelling += static_cast<char>(code);
    } else {
      spelling += static_cast<char>(0xC0 | code >> 6);
      spelling += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return spelling;
}

bool Vocabulary::add(TokenId id, std::string_view bytes) {
  if (id < 0 || id > max_id || has(id)) {
    return false;
  }
  if (id >= limit()) {
    spans_.resize(static_cast<std::size_t>(id) + 1);
  }
  spans_[id] = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(bytes.size())};
  bytes_.append(bytes);
  return true;
}

bool Vocabulary::build_index(const std::vector<TokenId>& findable) {
  slots_.assign(std::bit_ceil(findable.size() * 2 + 1), -1);
  const std::size_t mask = slots_.size() - 1;
  for (const TokenId id : findable) {
    const std::string_view bytes = bytes_of(id);
    std::size_t slot = hash_bytes(bytes) & mask;
    for (; slots_[slot] >= 0; slot = (slot + 1) & mask) {
      if (bytes_of(slots_[slot]) == bytes) {
        return false;
      }
    }
    slots_[slot] = id;
  }
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view bytes) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash_bytes(bytes) & mask; slots_[slot] >= 0; slot = (slot + 1) & mask) {
    if (bytes_of(slots_[slot]) == bytes) {
      return slots_[slot];
    }
  }
  return std::nullopt;
}

}  // namespace hydra::text
