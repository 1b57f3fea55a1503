#pragma once
// Random keys and values of needles. Keys are distinct within a sample.

#include <string>
#include <unordered_set>

#include "hydrahead/base/random.hpp"
#include "niah_text.hpp"

namespace hydra::data {

struct Needle {
  std::string key, value, sentence;
};

class KeyMaker {
 public:
  KeyMaker(const Corpora& corpora, ItemKind kind) : corpora_(corpora), kind_(kind) {}
  std::string next(RandomStream& random);  // differs from all before it

 private:
  const Corpora& corpora_;
  ItemKind kind_;
  std::unordered_set<std::string> used_;
};

// "adjective-noun", seven digits, or a random (version 4) uuid in lower case.
std::string random_item(ItemKind kind, const Corpora& corpora, RandomStream& random);

}  // namespace hydra::data
