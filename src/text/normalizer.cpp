// NFC, NFD, NFKC and NFKD through utf8proc, applied to the few stretches of a text that can change.

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "hydrahead/base/error.hpp"
#include "hydrahead/text/unicode.hpp"

namespace hydra::text {
namespace {

constexpr char32_t code_points = 0x110000;

// STABLE keeps the composition exclusions of the standard.
utf8proc_option_t options_of(NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

// A character is inert unless it has a combining class, changes on its own, or stands behind the first place of some
// decomposition (then composition may join it to the character before it; Hangul vowels and finals come in this way
// too).
std::vector<bool> make_inert_table(NormalForm form) {
  const utf8proc_option_t options = options_of(form);
  const auto decomposition = static_cast<utf8proc_option_t>((options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
  std::vector<bool> inert(code_points, true);
  std::array<utf8proc_int32_t, 32> parts;
  for (char32_t code = 0x80; code < code_points; ++code) {
    const auto signed_code = static_cast<utf8proc_int32_t>(code);
    const utf8proc_property_t& property = *utf8proc_get_property(signed_code);
    if (property.category == UTF8PROC_CATEGORY_CN || property.category == UTF8PROC_CATEGORY_CS) {
      continue;  // not assigned (maps to itself), or a surrogate (not in UTF-8)
    }
    if (property.combining_class != 0) {
      inert[code] = false;
    }
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(signed_code, parts.data(), parts.size(), decomposition, &boundary_class);
    HYDRA_CHECK(count >= 1 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "utf8proc: code point ",
                signed_code);
    if (count == 1 && parts[0] == signed_code) {
      continue;
    }
    utf8proc_ssize_t kept = count;
    if ((options & UTF8PROC_COMPOSE) != 0) {
      for (utf8proc_ssize_t i = 1; i < count; ++i) {
        inert[static_cast<char32_t>(parts[i])] = false;
      }
      kept = utf8proc_normalize_utf32(parts.data(), count, options);
    }
    if (kept != 1 || parts[0] != signed_code) {
      inert[code] = false;
    }
  }
  return inert;
}

const std::vector<bool>& inert_table(NormalForm form) {
  switch (form) {
    case NormalForm::nfc: {
      static const std::vector<bool> table = make_inert_table(NormalForm::nfc);
      return table;
    }
    case NormalForm::nfd: {
      static const std::vector<bool> table = make_inert_table(NormalForm::nfd);
      return table;
    }
    case NormalForm::nfkc: {
      static const std::vector<bool> table = make_inert_table(NormalForm::nfkc);
      return table;
    }
    case NormalForm::nfkd: break;
  }
  static const std::vector<bool> table = make_inert_table(NormalForm::nfkd);
  return table;
}

void append_normalized(std::string_view text, NormalForm form, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &result, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  HYDRA_CHECK(length >= 0, "utf8proc: ", utf8proc_errmsg(length));
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

}  // namespace

Normalizer::Normalizer(NormalForm form) : form_(form), inert_(&inert_table(form)) {}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  bool changed = false;
  std::size_t copied = 0;      // text[0, copied) is in the buffer, once something changed
  std::size_t last_inert = 0;  // where the last inert character starts
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t start = position;
    if (inert(next_code_point(text, position))) {
      last_inert = start;
      continue;
    }
    // From the inert character before to the next one.
    std::size_t end = position;
    while (end < text.size()) {
      std::size_t after = end;
      if (inert(next_code_point(text, after))) {
        break;
      }
      end = after;
    }
    if (!changed) {
      changed = true;
      buffer.clear();
    }
    buffer.append(text.substr(copied, last_inert - copied));
    append_normalized(text.substr(last_inert, end - last_inert), form_, buffer);
    copied = last_inert = position = end;
  }
  if (!changed) {
    return text;
  }
  buffer.append(text.substr(copied));
  return buffer;
}

}  // namespace hydra::text
