#pragma once
// What haystacks and keys are made of (evaluation.md section 4): the project's own word lists, or the files of a
// folder, and the essay text, by default the novels that tools/fetch_essay.py leaves in the user's cache.

#include <filesystem>
#include <string>
#include <vector>

namespace hydra::data {

struct Corpora {
  std::vector<std::string> adjectives, nouns;  // sorted, distinct
  std::string words_name = "built-in";
  std::string words_sha256;              // of both lists, one word a line
  std::string essay;                     // white space folded to single spaces; empty: none
  std::string essay_name, essay_sha256;  // file name and hash of the file
  bool essay_is_default = true;
};

// haystack_file: .txt, or .json with the key "text"; "" = the cached novels, none if they are absent. words_dir: a
// folder with adjectivelist.txt and nounlist.txt, one word a line; "" = the built-in lists.
Corpora load_corpora(const std::string& haystack_file = "", const std::string& words_dir = "");

// ${XDG_CACHE_HOME:-~/.cache}/hydrahead
std::filesystem::path cache_dir();

// Runs of white space become one space; none is left at the ends.
std::string fold_whitespace(std::string_view text);

// The built-in lists, words separated by white space.
extern const char* const built_in_adjectives;
extern const char* const built_in_nouns;

}  // namespace hydra::data
