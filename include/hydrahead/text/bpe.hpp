#pragma once
// Byte pair encoding by merge rank (Sennrich et al., 2016; the byte-level form of GPT-2): of all adjacent pairs the one
// of lowest rank is merged first, the leftmost of equals, until none is left. A heap over a linked list: O(n log n).

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hydrahead/text/vocabulary.hpp"

namespace hydra::text {

struct Merge {
  TokenId left, right, result;
};

class Bpe {
 public:
  // Buffers of one thread.
  struct Scratch {
    struct Symbol {
      TokenId id;
      std::int64_t previous, next;  // -1 at the ends
    };
    struct Candidate {
      std::uint32_t rank;
      std::int64_t position;  // of the left symbol
      TokenId result;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // `byte_ids` are the ids of the 256 single bytes; a merge's rank is its place in `merges`, whose pairs are distinct.
  Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges);

  // Appends the ids of one pre-token.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Entry {
    TokenId left = -1, right = -1;
    std::uint32_t rank = 0;
    TokenId result = -1;
  };
  const Entry* find(TokenId left, TokenId right) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Entry> table_;  // open addressing, a power of two; left = -1: empty
};

}  // namespace hydra::text
