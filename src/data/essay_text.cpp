#include "essay_text.hpp"

#include <algorithm>
#include <unordered_map>

#include "hydrahead/base/error.hpp"

namespace hydra::data {
namespace {

// Longest match at the end of `word`; 0 if it does not end with a closing quote or bracket.
std::size_t closing_bytes(std::string_view word) {
  for (const std::string_view mark : {"\"", "'", ")", "]", "}", "*", "_", "\u201d", "\u2019", "\u00bb"}) {
    if (word.ends_with(mark)) {
      return mark.size();
    }
  }
  return 0;
}

std::string lower_letters(std::string_view word) {
  std::string letters;
  for (const char c : word) {
    if (c >= 'A' && c <= 'Z') {
      letters += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || c == '.') {
      letters += c;
    }
  }
  return letters;
}

}  // namespace

bool ends_sentence(std::string_view word) {
  while (const std::size_t closing = closing_bytes(word)) {
    word.remove_suffix(closing);
  }
  if (word.empty() || (word.back() != '.' && word.back() != '?' && word.back() != '!')) {
    return false;
  }
  if (word.back() != '.') {
    return true;
  }
  static constexpr std::string_view abbreviations[] = {"mr",  "mrs", "ms",  "dr",   "st",  "vs",    "etc", "e.g",
                                                       "i.e", "jr",  "sr",  "prof", "rev", "gen",   "col", "capt",
                                                       "no",  "vol", "fig", "cf",   "esq", "messrs"};
  const std::string stem = lower_letters(word.substr(0, word.size() - 1));
  return stem.size() != 1 &&
         std::find(std::begin(abbreviations), std::end(abbreviations), stem) == std::end(abbreviations);
}

EssayText::EssayText(std::string_view folded, const text::Tokenizer& tokenizer) : folded_(folded) {
  HYDRA_CHECK(!folded.empty(), "essay without text");
  std::unordered_map<std::string_view, std::int64_t> counts;  // of distinct words
  std::string spaced;
  token_sums_.push_back(0);
  break_sums_.push_back(0);
  for (std::size_t begin = 0; begin < folded.size();) {
    const std::size_t end = std::min(folded.find(' ', begin), folded.size());
    const std::string_view word = folded.substr(begin, end - begin);
    const auto [entry, is_new] = counts.try_emplace(word, 0);
    if (is_new) {
      spaced.assign(1, ' ').append(word);
      entry->second = static_cast<std::int64_t>(tokenizer.encode(spaced).size());
    }
    const bool ends = ends_sentence(word);
    if (ends) {
      breaks_.push_back(static_cast<std::int64_t>(word_begin_.size()));
    }
    word_begin_.push_back(static_cast<std::int64_t>(begin));
    token_sums_.push_back(token_sums_.back() + entry->second);
    break_sums_.push_back(break_sums_.back() + (ends ? 1 : 0));
    begin = end + 1;
  }
  word_begin_.push_back(static_cast<std::int64_t>(folded.size()) + 1);
}

std::string_view EssayText::word(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index % words());
  return folded_.substr(static_cast<std::size_t>(word_begin_[i]),
                        static_cast<std::size_t>(word_begin_[i + 1] - word_begin_[i] - 1));
}

std::int64_t EssayText::sentences(std::int64_t begin, std::int64_t end) const {
  return sum(break_sums_, end - 1) - sum(break_sums_, begin) + 1;
}

std::int64_t EssayText::sentence_start(std::int64_t begin, std::int64_t end, std::int64_t number) const {
  if (number == 0) {
    return begin;
  }
  if (number >= sentences(begin, end)) {
    return end;
  }
  const std::int64_t ordinal = sum(break_sums_, begin) + number - 1;  // of the sentence end before it, over all repeats
  const auto per_pass = static_cast<std::int64_t>(breaks_.size());
  return ordinal / per_pass * words() + breaks_[static_cast<std::size_t>(ordinal % per_pass)] + 1;
}

void EssayText::append(std::int64_t begin, std::int64_t end, std::string& out) const {
  while (begin < end) {
    const std::int64_t first = begin % words();
    const std::int64_t last = std::min(words(), first + end - begin);  // up to the end of this pass
    const std::int64_t from = word_begin_[static_cast<std::size_t>(first)];
    const std::int64_t to = word_begin_[static_cast<std::size_t>(last)] - 1;
    out.append(folded_.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)));
    begin += last - first;
    if (begin < end) {
      out += ' ';
    }
  }
}

}  // namespace hydra::data
