#include "hydrahead/text/bpe.hpp"

#include <algorithm>
#include <bit>

#include "hash.hpp"

namespace hydra::text {
namespace {

std::uint64_t hash_pair(TokenId left, TokenId right) {
  return mix_hash(static_cast<std::uint32_t>(left), std::uint64_t{static_cast<std::uint32_t>(right)} << 32);
}

// Order of a heap whose top is the lowest rank, the leftmost of equals.
bool comes_later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), table_(std::bit_ceil(merges.size() * 3 / 2 + 2)) {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    std::size_t slot = hash_pair(merge.left, merge.right) & mask;
    while (table_[slot].left >= 0) {
      slot = (slot + 1) & mask;
    }
    table_[slot] = {merge.left, merge.right, static_cast<std::uint32_t>(rank), merge.result};
  }
}

const Bpe::Entry* Bpe::find(TokenId left, TokenId right) const {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = hash_pair(left, right) & mask; table_[slot].left >= 0; slot = (slot + 1) & mask) {
    if (table_[slot].left == left && table_[slot].right == right) {
      return &table_[slot];
    }
  }
  return nullptr;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<std::int64_t>(piece.size());
  symbols.resize(piece.size());
  heap.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i - 1, i + 1 < count ? i + 1 : -1};
    if (i > 0) {
      if (const Entry* merge = find(symbols[i - 1].id, symbols[i].id)) {
        heap.push_back({merge->rank, i - 1, merge->result});
      }
    }
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);

  const auto push = [&](std::int64_t position) {
    if (const Entry* merge = find(symbols[position].id, symbols[symbols[position].next].id)) {
      heap.push_back({merge->rank, position, merge->result});
      std::push_heap(heap.begin(), heap.end(), comes_later);
    }
  };
  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    heap.pop_back();
    Scratch::Symbol& left = symbols[best.position];
    if (left.id < 0 || left.next < 0) {
      continue;  // merged away, or its right neighbour was
    }
    const Entry* merge = find(left.id, symbols[left.next].id);
    if (merge == nullptr || merge->rank != best.rank) {
      continue;  // the pair has changed since
    }
    Scratch::Symbol& right = symbols[left.next];
    left.id = best.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      symbols[left.next].previous = best.position;
      push(best.position);
    }
    if (left.previous >= 0) {
      push(left.previous);
    }
  }
  for (std::int64_t i = count > 0 ? 0 : -1; i >= 0; i = symbols[i].next) {
    out.push_back(symbols[i].id);
  }
}

}  // namespace hydra::text
