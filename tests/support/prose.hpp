#pragma once
// English-looking text out of random words, with the punctuation that books have: tests need no book.

#include <sstream>
#include <string>
#include <vector>

#include "hydrahead/base/random.hpp"
#include "hydrahead/data/corpora.hpp"

namespace hydra::test {

inline std::string make_prose(int words, std::uint64_t seed) {
  static const std::vector<std::string> nouns = [] {
    std::istringstream stream(data::built_in_nouns);
    std::vector<std::string> list;
    for (std::string word; stream >> word;) {
      list.push_back(word);
    }
    return list;
  }();
  static const char* const small[] = {"the", "a",   "of", "and",   "to",    "his",
                                      "was", "not", "I",  "never", "don't", "upon"};
  static const char* const odd[] = {"Mr. Weston", "Mrs. Gray", "1815",      "\u00a3500,", "well--known",
                                    "(or so)",    "_very_",    "e.g. this", "twenty-one"};
  RandomStream random(seed, 900);
  std::string text;
  bool begin = true;
  for (int i = 0; i < words; ++i) {
    std::string word = random.below(20) == 0  ? odd[random.below(std::size(odd))]
                       : random.below(2) == 0 ? small[random.below(std::size(small))]
                                              : nouns[random.below(static_cast<std::uint32_t>(nouns.size()))];
    if (begin && word[0] >= 'a' && word[0] <= 'z') {
      word[0] = static_cast<char>(word[0] - 'a' + 'A');
    }
    begin = random.below(12) == 0;
    static const char* const ends[] = {".", "?", "!", ".\"", ".\u201d", ".)"};
    static const char* const pauses[] = {",", ";", ":", "--"};
    text += text.empty() ? "" : " ";
    text += word;
    text += begin                  ? ends[random.below(std::size(ends))]
            : random.below(9) == 0 ? pauses[random.below(std::size(pauses))]
                                   : "";
  }
  return text;
}

}  // namespace hydra::test
