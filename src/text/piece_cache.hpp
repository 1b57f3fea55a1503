#pragma once
// Cache pre-token -> ids of one thread: direct-mapped, one cache line an entry, so its memory is fixed and a lookup
// touches one line. It holds pre-tokens of at most 31 bytes and 7 ids, which in natural text is nearly all of them.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "hash.hpp"
#include "hydrahead/text/vocabulary.hpp"

namespace hydra::text {

class PieceCache {
 public:
  static constexpr std::size_t max_bytes = 31, max_ids = 7;

  struct alignas(64) Entry {
    std::array<std::uint64_t, 4> key{};  // the bytes, zeros, and the length in the last byte; all zero: empty
    std::uint32_t count = 0;
    std::array<TokenId, max_ids> ids{};

    bool holds(const std::array<std::uint64_t, 4>& other) const { return key == other; }
    std::span<const TokenId> tokens() const { return {ids.data(), count}; }
    void store(const std::array<std::uint64_t, 4>& new_key, std::span<const TokenId> tokens) {
      if (tokens.size() <= max_ids) {
        key = new_key;
        count = static_cast<std::uint32_t>(tokens.size());
        std::memcpy(ids.data(), tokens.data(), tokens.size_bytes());
      }
    }
  };
  static_assert(sizeof(Entry) == 64);

  static std::array<std::uint64_t, 4> key_of(std::string_view piece) {  // 1 to max_bytes bytes
    std::array<std::uint64_t, 4> key{};
    std::memcpy(key.data(), piece.data(), piece.size());
    key[3] |= std::uint64_t{piece.size()} << 56;
    return key;
  }

  // The one entry that may hold the key.
  Entry& slot(const std::array<std::uint64_t, 4>& key) {
    return entries_[mix_hash(mix_hash(key[0], key[1]), key[2] ^ key[3]) >> (64 - bits)];
  }

 private:
  static constexpr int bits = 16;
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << bits);
};

}  // namespace hydra::text
