#include "haystack.hpp"

#include <unordered_map>

#include "hydrahead/base/error.hpp"

namespace hydra::data {

LineHaystack::LineHaystack(const std::function<std::string()>& next_line, std::int64_t limit,
                           std::vector<std::string> needles, const text::Tokenizer& tokenizer)
    : needles_(std::move(needles)) {
  const auto count = [&](const std::string& line) {
    return static_cast<std::int64_t>(tokenizer.encode(line + "\n").size());
  };
  for (const std::string& needle : needles_) {
    needle_tokens_ += count(needle);
  }
  std::unordered_map<std::string, std::int64_t> repeated;  // noise has few distinct lines
  token_sums_.push_back(0);
  while (lines_.empty() || token_sums_.back() <= limit) {
    lines_.push_back(next_line());
    const auto known = repeated.find(lines_.back());
    const std::int64_t tokens = known != repeated.end() ? known->second : count(lines_.back());
    if (repeated.size() < 8) {
      repeated.emplace(lines_.back(), tokens);
    }
    token_sums_.push_back(token_sums_.back() + tokens);
  }
}

std::int64_t LineHaystack::tokens(std::int64_t units, std::span<const std::int64_t>) const {
  return token_sums_[static_cast<std::size_t>(units)] + needle_tokens_;
}

std::string LineHaystack::text(std::int64_t units, std::span<const std::int64_t> positions) const {
  std::string text;
  std::size_t needle = 0;
  for (std::int64_t line = 0; line <= units; ++line) {
    while (needle < needles_.size() && positions[needle] <= line) {
      text.append(needles_[needle++]) += '\n';
    }
    if (line < units) {
      text.append(lines_[static_cast<std::size_t>(line)]) += '\n';
    }
  }
  HYDRA_CHECK(needle == needles_.size(), "a needle's position is beyond the haystack");
  text.pop_back();
  return text;
}

EssayHaystack::EssayHaystack(const EssayText& essay, std::int64_t first_word, std::int64_t limit,
                             std::vector<std::string> needles, const text::Tokenizer& tokenizer)
    : essay_(essay), tokenizer_(tokenizer), first_(first_word), limit_(limit), needles_(std::move(needles)) {
  for (const std::string& needle : needles_) {
    needle_tokens_ += count(" " + needle);
  }
}

std::int64_t EssayHaystack::count(std::string_view text) const {
  return static_cast<std::int64_t>(tokenizer_.encode(text).size());
}

std::int64_t EssayHaystack::tokens(std::int64_t units, std::span<const std::int64_t> positions) const {
  const std::int64_t end = first_ + units;
  // The first piece has no space before it, the last one a newline behind it.
  const bool needle_first = !needles_.empty() && positions.front() == 0;
  const bool needle_last = !needles_.empty() && positions.back() >= places(units);
  const std::string first(needle_first ? needles_.front() : essay_.word(first_));
  const std::string last(needle_last ? needles_.back() : essay_.word(end - 1));
  return essay_.tokens(first_, end) + needle_tokens_ + count(first) - count(" " + first) + count(" " + last + "\n") -
         count(" " + last);
}

std::string EssayHaystack::text(std::int64_t units, std::span<const std::int64_t> positions) const {
  const std::int64_t end = first_ + units;
  std::string text;
  std::int64_t done = first_;
  const auto add_words = [&](std::int64_t to) {
    if (to > done) {
      text += text.empty() ? "" : " ";
      essay_.append(done, to, text);
      done = to;
    }
  };
  for (std::size_t i = 0; i < needles_.size(); ++i) {
    add_words(essay_.sentence_start(first_, end, positions[i]));
    text += text.empty() ? "" : " ";
    text += needles_[i];
  }
  add_words(end);
  return text;
}

std::int64_t fit_units(std::int64_t least, std::int64_t most, std::int64_t room,
                       const std::function<std::int64_t(std::int64_t)>& tokens_of) {
  if (most < least || tokens_of(least) > room) {
    return 0;
  }
  std::int64_t fits = least, fails = most + 1;
  while (fails - fits > 1) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    (tokens_of(middle) <= room ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace hydra::data
