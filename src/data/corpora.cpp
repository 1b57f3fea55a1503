// Loads word lists and essay text, and says where each came from.

#include "hydrahead/data/corpora.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::data {
namespace {

std::vector<std::string> split_words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(std::move(word));
  }
  return words;
}

// One entry a line; entries may hold spaces.
std::vector<std::string> read_word_file(const fs::path& path) {
  std::istringstream stream(read_file(path));
  std::vector<std::string> words;
  for (std::string line; std::getline(stream, line);) {
    if (std::string entry = fold_whitespace(line); !entry.empty()) {
      words.push_back(std::move(entry));
    }
  }
  HYDRA_REQUIRE(!words.empty(), path.string(), ": holds no word; expected one a line");
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

void load_words(Corpora& corpora, const std::string& words_dir) {
  if (words_dir.empty()) {
    corpora.adjectives = split_words(built_in_adjectives);
    corpora.nouns = split_words(built_in_nouns);
  } else {
    corpora.adjectives = read_word_file(fs::path(words_dir) / "adjectivelist.txt");
    corpora.nouns = read_word_file(fs::path(words_dir) / "nounlist.txt");
    corpora.words_name = words_dir;
  }
  Sha256 hash;
  for (const auto* list : {&corpora.adjectives, &corpora.nouns}) {
    for (const std::string& word : *list) {
      hash.update(word + "\n");
    }
  }
  corpora.words_sha256 = hash.hex();
}

std::string read_essay(const fs::path& path) {
  const std::string content = read_file(path);
  if (path.extension() != ".json") {
    return fold_whitespace(content);
  }
  const Json json = parse_json(content).value_or_fail(path.string());
  HYDRA_REQUIRE(json.is_object() && json.contains("text") && json["text"].is_string(), path.string(),
                ": has no string \"text\"; expected {\"text\": ...}");
  return fold_whitespace(json["text"].get_ref<const std::string&>());
}

// Bytes of the white-space character at text[i], as Python's str.split sees it in UTF-8; 0 if there is none.
std::size_t space_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned first = byte(i);
  if (first < 0x80) {
    return first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f) ? 1 : 0;
  }
  if (first == 0xc2) {  // U+0085, U+00A0
    return byte(i + 1) == 0x85 || byte(i + 1) == 0xa0 ? 2 : 0;
  }
  const unsigned code = (first & 0x0f) << 12 | (byte(i + 1) & 0x3f) << 6 | (byte(i + 2) & 0x3f);
  const bool three_bytes = (first & 0xf0) == 0xe0;
  const bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
                     code == 0x202f || code == 0x205f || code == 0x3000;
  return three_bytes && space ? 3 : 0;
}

}  // namespace

fs::path cache_dir() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') {
    return fs::path(xdg) / "hydrahead";
  }
  const char* home = std::getenv("HOME");
  HYDRA_REQUIRE(home != nullptr && *home != '\0',
                "neither XDG_CACHE_HOME nor HOME is set; one of them must name the cache");
  return fs::path(home) / ".cache" / "hydrahead";
}

std::string fold_whitespace(std::string_view text) {
  std::string folded;
  folded.reserve(text.size());
  bool gap = false;
  for (std::size_t i = 0; i < text.size();) {
    if (const std::size_t space = space_at(text, i); space > 0) {
      gap = true;
      i += space;
      continue;
    }
    if (gap && !folded.empty()) {
      folded += ' ';
    }
    gap = false;
    folded += text[i++];
  }
  return folded;
}

Corpora load_corpora(const std::string& haystack_file, const std::string& words_dir) {
  Corpora corpora;
  load_words(corpora, words_dir);
  corpora.essay_is_default = haystack_file.empty();
  const fs::path essay = haystack_file.empty() ? cache_dir() / "austen.txt" : fs::path(haystack_file);
  if (corpora.essay_is_default && !fs::exists(essay)) {
    return corpora;
  }
  corpora.essay = read_essay(essay);
  HYDRA_REQUIRE(!corpora.essay.empty(), essay.string(), ": holds no text; expected an essay for the haystack");
  corpora.essay_name = essay.filename().string();
  corpora.essay_sha256 = sha256_of_file(essay);
  return corpora;
}

}  // namespace hydra::data
