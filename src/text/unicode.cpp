#include "hydrahead/text/unicode.hpp"

#include <cstring>

namespace hydra::text {
namespace {

// One character at the start of `text`: its length, whether it is well-formed, and whether more bytes could still make
// it so. For a malformed one `length` is that of the maximal bad part (Unicode 15, section 3.9, table 3-7).
struct Scanned {
  std::size_t length;
  bool valid;
  bool open;
};

Scanned scan_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {1, true, false};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {1, false, false};
  }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xBF;  // the allowed second byte: no overlong form, surrogate or code above 10FFFF
  if (lead == 0xE0) {
    low = 0xA0;
  } else if (lead == 0xED) {
    high = 0x9F;
  } else if (lead == 0xF0) {
    low = 0x90;
  } else if (lead == 0xF4) {
    high = 0x8F;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      return {i, false, true};
    }
    if (byte(i) < low || byte(i) > high) {
      return {i, false, false};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

std::size_t ascii_prefix(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080u) != 0) {
      break;
    }
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) {
    ++i;
  }
  return i;
}

}  // namespace

bool is_ascii(std::string_view text) { return ascii_prefix(text) == text.size(); }

std::size_t valid_prefix(std::string_view text) {
  std::size_t i = 0;
  while (true) {
    i += ascii_prefix(text.substr(i));
    if (i == text.size()) {
      return i;
    }
    const Scanned scanned = scan_character(text.substr(i));
    if (!scanned.valid) {
      return i;
    }
    i += scanned.length;
  }
}

std::string replace_malformed(std::string_view text) {
  std::string clean;
  clean.reserve(text.size() + 8);
  while (!text.empty()) {
    const std::size_t good = valid_prefix(text);
    clean.append(text.substr(0, good));
    text.remove_prefix(good);
    if (!text.empty()) {
      clean.append("\xEF\xBF\xBD");
      text.remove_prefix(scan_character(text).length);
    }
  }
  return clean;
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto lead = static_cast<unsigned char>(text[text.size() - back]);
    if (lead >= 0xC0) {  // the last lead byte decides
      const Scanned scanned = scan_character(text.substr(text.size() - back));
      return scanned.open ? back : 0;
    }
    if (lead < 0x80) {
      return 0;
    }
  }
  return 0;
}

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(position);
  if (lead < 0x80) {
    position += 1;
    return lead;
  }
  const std::size_t i = position;
  if (lead < 0xE0) {
    position += 2;
    return (lead & 0x1F) << 6 | (byte(i + 1) & 0x3F);
  }
  if (lead < 0xF0) {
    position += 3;
    return (lead & 0x0F) << 12 | (byte(i + 1) & 0x3F) << 6 | (byte(i + 2) & 0x3F);
  }
  position += 4;
  return (lead & 0x07) << 18 | (byte(i + 1) & 0x3F) << 12 | (byte(i + 2) & 0x3F) << 6 | (byte(i + 3) & 0x3F);
}

}  // namespace hydra::text
