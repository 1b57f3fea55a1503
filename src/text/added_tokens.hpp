#pragma once
// Cuts text at added tokens: leftmost, and of several that begin at one place the longest.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hydrahead/text/vocabulary.hpp"

namespace hydra::text {

class AddedTokenMatcher {
 public:
  void add(const std::string& content, TokenId id);  // content: not empty, not added before
  std::optional<TokenId> find(std::string_view content) const {
    const auto found = ids_.find(content);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  // Calls on_text(std::string_view) for the stretches between tokens and on_token(TokenId), in order.
  template <class OnText, class OnToken>
  void cut(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
    std::size_t done = 0;
    for (std::size_t i = 0; !ids_.empty() && i < text.size();) {
      const std::vector<std::size_t>& lengths = lengths_[static_cast<unsigned char>(text[i])];
      const auto found = lengths.empty() ? ids_.end() : longest_at(text.substr(i), lengths);
      if (found == ids_.end()) {
        ++i;
        continue;
      }
      if (done < i) {
        on_text(text.substr(done, i - done));
      }
      on_token(found->second);
      i += found->first.size();
      done = i;
    }
    if (done < text.size()) {
      on_text(text.substr(done));
    }
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Ids = std::unordered_map<std::string, TokenId, Hash, std::equal_to<>>;

  Ids::const_iterator longest_at(std::string_view text, const std::vector<std::size_t>& lengths) const;

  Ids ids_;
  std::array<std::vector<std::size_t>, 256> lengths_;  // by first byte: the distinct lengths, longest first
};

}  // namespace hydra::text
