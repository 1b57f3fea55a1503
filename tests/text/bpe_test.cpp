#include "hydrahead/text/bpe.hpp"

#include <gtest/gtest.h>

#include <map>

#include "hydrahead/base/random.hpp"
#include "tests/support/cpu_time.hpp"

namespace hydra::text {
namespace {

// The definition: look for the pair of lowest rank, leftmost of equals, merge it, look again.
std::vector<TokenId> naive(std::string_view piece, const std::vector<Merge>& merges) {
  std::vector<TokenId> ids;
  for (const char byte : piece) {
    ids.push_back(static_cast<unsigned char>(byte));
  }
  while (true) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) {
          best = rank;
          at = i;
        }
      }
    }
    if (best == merges.size()) {
      return ids;
    }
    ids[at] = merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::array<TokenId, 256> bytes_themselves() {
  std::array<TokenId, 256> ids{};
  for (int i = 0; i < 256; ++i) {
    ids[i] = i;
  }
  return ids;
}

TEST(Bpe, EqualsTheDefinition) {
  RandomStream random(3, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<Merge> merges;  // of random tokens made so far, over the letters a, b, c
    std::map<std::pair<TokenId, TokenId>, bool> seen;
    std::vector<TokenId> tokens{'a', 'b', 'c'};
    for (TokenId next = 256; next < 256 + 20; ++next) {
      const TokenId left = tokens[random.below(static_cast<std::uint32_t>(tokens.size()))];
      const TokenId right = tokens[random.below(static_cast<std::uint32_t>(tokens.size()))];
      if (seen.emplace(std::pair(left, right), true).second) {
        merges.push_back({left, right, next});
        tokens.push_back(next);
      }
    }
    const Bpe bpe(bytes_themselves(), merges);
    Bpe::Scratch scratch;
    for (int text = 0; text < 50; ++text) {
      std::string piece;
      for (std::uint32_t i = 0, n = random.below(40); i < n; ++i) {
        piece += static_cast<char>('a' + random.below(3));
      }
      std::vector<TokenId> ids;
      bpe.encode(piece, scratch, ids);
      ASSERT_EQ(ids, naive(piece, merges)) << piece;
    }
  }
}

TEST(Bpe, MillionsOfBytesWithoutASpace) {
  std::vector<Merge> merges;  // aa, aaaa, ... 2^20 letters
  merges.push_back({'a', 'a', 256});
  for (TokenId id = 256; id < 256 + 19; ++id) {
    merges.push_back({id, id, id + 1});
  }
  const Bpe bpe(bytes_themselves(), merges);
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  const double start = test::cpu_seconds();
  bpe.encode(std::string(3 << 20, 'a'), scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{275, 275, 275}));
  EXPECT_LT(test::cpu_seconds() - start, 20.0);
}

}  // namespace
}  // namespace hydra::text
