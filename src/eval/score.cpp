#include "hydrahead/eval/score.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "hydrahead/base/error.hpp"

namespace hydra::eval {
namespace {

struct CodePoint {
  utf8proc_int32_t value = -1;  // negative: a malformed byte, taken as it is
  std::size_t bytes = 1;
};

CodePoint code_point_at(std::string_view text, std::size_t at) {
  CodePoint point;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const utf8proc_ssize_t length =
      utf8proc_iterate(data + at, static_cast<utf8proc_ssize_t>(text.size() - at), &point.value);
  if (length > 0) {
    point.bytes = static_cast<std::size_t>(length);
  } else {
    point.value = -1;
  }
  return point;
}

// str.isspace of Python.
bool is_space(utf8proc_int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const CodePoint point = code_point_at(text, begin);
    if (!is_space(point.value)) {
      break;
    }
    begin += point.bytes;
  }
  std::size_t end = begin;  // behind the last character that is no space
  for (std::size_t at = begin; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.bytes;
    if (!is_space(point.value)) {
      end = at;
    }
  }
  return text.substr(begin, end - begin);
}

// str.lower of Python, except for the final sigma; U+0130 is the one letter that becomes two.
std::string lower(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.value < 0) {
      out.push_back(text[at]);
    } else if (point.value == 0x130) {
      out += "i\xCC\x87";
    } else {
      utf8proc_uint8_t bytes[4];
      const utf8proc_ssize_t length = utf8proc_encode_char(utf8proc_tolower(point.value), bytes);
      out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
    }
    at += point.bytes;
  }
  return out;
}

bool is_word_byte(char c) {  // letters and digits; bytes of non-ASCII letters count as letters
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool occurs_alone(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_byte(text[at - 1])) && (end == text.size() || !is_word_byte(text[end]))) {
      return true;
    }
  }
  return false;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

bool is_uuid_at(std::string_view text, std::size_t at) {
  constexpr std::size_t length = 36;
  if (at + length > text.size()) {
    return false;
  }
  for (std::size_t i = 0; i < length; ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[at + i] != '-' : !is_hex(text[at + i])) {
      return false;
    }
  }
  return true;
}

// Distinct items of a kind in a lower-case prediction.
std::size_t count_items(std::string_view text, AnswerKind kind) {
  std::set<std::string_view> items;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    if (kind == AnswerKind::uuid) {
      end += is_uuid_at(text, at) ? 36 : 0;
    } else {
      while (end < text.size() && (kind == AnswerKind::number ? is_digit(text[end]) : is_word_byte(text[end]))) {
        ++end;
      }
    }
    if (end > at) {
      items.insert(text.substr(at, end - at));
    }
    at = std::max(end, at + 1);
  }
  return items.size();
}

std::size_t count_hits(std::string_view prediction, std::span<const std::string> references) {
  HYDRA_CHECK(!references.empty(), "a sample without references");
  const std::string text = lower(prediction);
  return static_cast<std::size_t>(
      std::count_if(references.begin(), references.end(),
                    [&](const std::string& reference) { return text.find(lower(reference)) != std::string::npos; }));
}

}  // namespace

std::string postprocess(std::string_view prediction) {
  std::string text(strip(prediction));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      c = '\n';
    }
  }
  return std::string(strip(text));
}

double string_match_all(std::string_view prediction, std::span<const std::string> references) {
  return 100.0 * static_cast<double>(count_hits(prediction, references)) / static_cast<double>(references.size());
}

double string_match_part(std::string_view prediction, std::span<const std::string> references) {
  return count_hits(prediction, references) > 0 ? 100.0 : 0.0;
}

AnswerKind answer_kind(std::span<const std::string> references) {
  const auto all = [&](auto&& test) { return std::all_of(references.begin(), references.end(), test); };
  if (all([](const std::string& text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); })) {
    return AnswerKind::number;
  }
  const bool uuids = all([](const std::string& text) { return text.size() == 36 && is_uuid_at(lower(text), 0); });
  return uuids ? AnswerKind::uuid : AnswerKind::word;
}

SampleScore score_sample(std::string_view prediction, std::span<const std::string> references) {
  HYDRA_CHECK(!references.empty(), "a sample without references");
  const std::string text = lower(prediction);
  SampleScore result;
  std::size_t found = 0, alone = 0;
  for (const std::string& reference : references) {
    const std::string wanted = lower(reference);
    result.hits.push_back(text.find(wanted) != std::string::npos);
    found += result.hits.back() ? 1 : 0;
    alone += occurs_alone(text, wanted) ? 1 : 0;
  }
  const auto count = static_cast<double>(references.size());
  result.score = static_cast<double>(found) / count;
  result.strict = static_cast<double>(alone) / count;
  const std::size_t items = count_items(text, answer_kind(references));
  if (items > 0) {  // one long run of digits may hold several references
    result.precision = std::min(1.0, static_cast<double>(found) / static_cast<double>(items));
  }
  if (result.precision + result.score > 0) {
    result.f1 = 2 * result.precision * result.score / (result.precision + result.score);
  }
  return result;
}

Interval wilson_interval(double p, std::size_t n) {
  HYDRA_CHECK(n > 0, "an interval of no samples");
  constexpr double z = 1.959964;
  const auto count = static_cast<double>(n);
  const double center = p + z * z / (2 * count);
  const double half = z * std::sqrt(p * (1 - p) / count + z * z / (4 * count * count));
  const double scale = 1 + z * z / count;
  return {.low = std::max(0.0, (center - half) / scale), .high = std::min(1.0, (center + half) / scale)};
}

}  // namespace hydra::eval
