#pragma once
// Word lists and an essay of made-up prose for needle samples: no test depends on the text that set-up fetches.

#include <cstdint>
#include <fstream>

#include "hydrahead/data/corpora.hpp"
#include "tests/support/prose.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::test {

inline data::Corpora prose_corpora(int words) {
  const TempDir dir;
  std::ofstream(dir.path() / "essay.txt") << make_prose(words, 1);
  return data::load_corpora(dir.path() / "essay.txt");
}

}  // namespace hydra::test
