#include "niah_keys.hpp"

#include "hydrahead/base/error.hpp"

namespace hydra::data {
namespace {

std::string random_uuid(RandomStream& random) {
  std::array<std::uint32_t, 4> words{};
  for (std::uint32_t& word : words) {
    word = random.next();
  }
  words[1] = (words[1] & 0xffff0fff) | 0x00004000;  // version 4
  words[2] = (words[2] & 0x3fffffff) | 0x80000000;  // RFC 4122 variant
  std::string text;
  text.reserve(36);
  for (int digit = 0; digit < 32; ++digit) {
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) {
      text += '-';
    }
    const std::uint32_t word = words[static_cast<std::size_t>(digit / 8)];
    text += "0123456789abcdef"[(word >> (28 - 4 * (digit % 8))) & 15];
  }
  return text;
}

}  // namespace

std::string random_item(ItemKind kind, const Corpora& corpora, RandomStream& random) {
  switch (kind) {
    case ItemKind::words: {
      const std::string& adjective =
          corpora.adjectives[random.below(static_cast<std::uint32_t>(corpora.adjectives.size()))];
      return adjective + "-" + corpora.nouns[random.below(static_cast<std::uint32_t>(corpora.nouns.size()))];
    }
    case ItemKind::numbers: return std::to_string(1'000'000 + random.below(9'000'000));
    case ItemKind::uuids: return random_uuid(random);
  }
  return {};
}

std::string KeyMaker::next(RandomStream& random) {
  if (kind_ == ItemKind::words) {
    const std::size_t pairs = corpora_.adjectives.size() * corpora_.nouns.size();
    HYDRA_REQUIRE(2 * used_.size() < pairs, corpora_.words_name, ": ", corpora_.adjectives.size(), " adjectives and ",
                  corpora_.nouns.size(), " nouns are too few words for distinct keys; more than ", used_.size(),
                  " keys are needed in one sample, and at most half of the pairs are used");
  }
  while (true) {
    std::string key = random_item(kind_, corpora_, random);
    if (used_.insert(key).second) {
      return key;
    }
  }
}

}  // namespace hydra::data
