#include "added_tokens.hpp"

#include <algorithm>
#include <functional>

namespace hydra::text {

void AddedTokenMatcher::add(const std::string& content, TokenId id) {
  ids_.emplace(content, id);
  std::vector<std::size_t>& lengths = lengths_[static_cast<unsigned char>(content.front())];
  const auto place = std::lower_bound(lengths.begin(), lengths.end(), content.size(), std::greater<>());
  if (place == lengths.end() || *place != content.size()) {
    lengths.insert(place, content.size());
  }
}

AddedTokenMatcher::Ids::const_iterator AddedTokenMatcher::longest_at(std::string_view text,
                                                                     const std::vector<std::size_t>& lengths) const {
  for (const std::size_t length : lengths) {
    if (length <= text.size()) {
      if (const auto found = ids_.find(text.substr(0, length)); found != ids_.end()) {
        return found;
      }
    }
  }
  return ids_.end();
}

}  // namespace hydra::text
