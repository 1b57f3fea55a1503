#pragma once
// A small independent check that a text is well-formed XML: one root, tags that nest, quoted attributes without
// duplicates, no stray '<' or '&'. Serves SVG and the HTML reports, which are written in XML's spelling.

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::test {

// Empty when well-formed, else what is wrong.
inline std::string xml_problem(std::string_view text) {
  std::vector<std::string> open;
  int roots = 0;
  std::size_t at = 0;
  const auto name_end = [&](std::size_t from) {
    while (from < text.size() && (std::isalnum(static_cast<unsigned char>(text[from])) != 0 || text[from] == '-' ||
                                  text[from] == ':' || text[from] == '_')) {
      ++from;
    }
    return from;
  };
  const auto entity_ok = [&](std::size_t amp) {
    const std::size_t semicolon = text.find(';', amp);
    if (semicolon == std::string_view::npos || semicolon - amp > 8) {
      return false;
    }
    const std::string_view name = text.substr(amp + 1, semicolon - amp - 1);
    return name == "amp" || name == "lt" || name == "gt" || name == "quot" || (name.size() > 1 && name[0] == '#');
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '&' && !entity_ok(at)) {
      return "bad entity at offset " + std::to_string(at);
    }
    if (c != '<') {
      if (open.empty() && std::isspace(static_cast<unsigned char>(c)) == 0) {
        return "text outside of the root at offset " + std::to_string(at);
      }
      ++at;
      continue;
    }
    if (text.substr(at, 9) == "<!DOCTYPE" || text.substr(at, 5) == "<?xml") {
      at = text.find('>', at) + 1;
      continue;
    }
    const bool closing = at + 1 < text.size() && text[at + 1] == '/';
    const std::size_t begin = at + (closing ? 2 : 1), end = name_end(begin);
    const std::string name(text.substr(begin, end - begin));
    if (name.empty()) {
      return "'<' without a name at offset " + std::to_string(at);
    }
    at = end;
    std::set<std::string> attributes;
    while (at < text.size() && text[at] != '>' && text[at] != '/') {
      if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
        ++at;
        continue;
      }
      const std::size_t key_end = name_end(at);
      const std::string key(text.substr(at, key_end - at));
      if (key.empty() || text.substr(key_end, 2) != "=\"" || !attributes.insert(key).second) {
        return "bad attribute in <" + name + "> at offset " + std::to_string(at);
      }
      const std::size_t value_end = text.find('"', key_end + 2);
      if (value_end == std::string_view::npos ||
          text.substr(key_end + 2, value_end - key_end - 2).find('<') != std::string_view::npos) {
        return "bad value of " + key + " in <" + name + ">";
      }
      at = value_end + 1;
    }
    const bool empty_element = at < text.size() && text[at] == '/';
    at += empty_element ? 2 : 1;
    if (at > text.size() || text[at - 1] != '>') {
      return "<" + name + "> does not end";
    }
    if (closing) {
      if (open.empty() || open.back() != name) {
        return "</" + name + "> closes <" + (open.empty() ? "" : open.back()) + ">";
      }
      open.pop_back();
    } else {
      roots += open.empty() ? 1 : 0;
      if (!empty_element) {
        open.push_back(name);
      }
    }
  }
  if (!open.empty()) {
    return "<" + open.back() + "> is not closed";
  }
  return roots == 1 ? "" : std::to_string(roots) + " roots";
}

}  // namespace hydra::test
