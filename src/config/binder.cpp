// The typed keys: how each C++ type is read from a YAML node, and written.

#include "hydrahead/config/binder.hpp"

#include <cstdlib>

#include "back_end.hpp"
#include "edit_distance.hpp"
#include "hydrahead/base/expected.hpp"
#include "scalars.hpp"

namespace hydra::config {
namespace {

std::string range_of(const Doc& doc) {
  const bool low = doc.min > -std::numeric_limits<double>::infinity();
  const bool high = doc.max < std::numeric_limits<double>::infinity();
  if (low && high) {
    return format_number(doc.min) + " to " + format_number(doc.max);
  }
  return low ? ">= " + format_number(doc.min) : high ? "<= " + format_number(doc.max) : "";
}

std::string expected(const std::string& type, const Doc& doc) {
  const std::string range = range_of(doc);
  const bool vowel = type.find_first_of("aeiou") == 0;
  return (vowel ? "an " : "a ") + type +
         (range.empty() ? "" : " " + (range[0] == '>' || range[0] == '<' ? range : "from " + range)) +
         (doc.unit.empty() ? "" : " (" + std::string(doc.unit) + ")");
}

template <class T>
struct Kind;  // parse: of an unquoted scalar; write: its text
template <>
struct Kind<std::int64_t> {
  static constexpr const char* name = "integer";
  static std::optional<std::int64_t> parse(const Node& node) { return parse_integer(node.text); }
  static std::string write(std::int64_t value) { return std::to_string(value); }
};
template <>
struct Kind<double> {
  static constexpr const char* name = "number";
  static std::optional<double> parse(const Node& node) { return parse_number(node.text); }
  static std::string write(double value) { return format_number(value); }
};
struct TokenCount {
  static constexpr const char* name = "token count";
  static std::optional<std::int64_t> parse(const Node& node) { return parse_token_count(node.text); }
  static std::string write(std::int64_t value) { return std::to_string(value); }
};

template <class K, class T>
std::string read_number(const Node& node, T& value, const Doc& doc) {
  if (node.kind == Node::Kind::scalar && !node.quoted) {
    if (const auto parsed = K::parse(node)) {
      const auto size = static_cast<double>(*parsed);
      if (size >= doc.min && size <= doc.max) {
        value = *parsed;
        return "";
      }
    }
  }
  return expected(K::name, doc);
}

// Text keys take any plain or quoted scalar; `no`, `1.10` stay text. YAML's null is no text.
std::string read_text(const Node& node, std::string& value) {
  if (node.kind == Node::Kind::null) {
    return "text (the word null in quotes)";
  }
  if (node.kind != Node::Kind::scalar) {
    return "text";
  }
  value = node.text;
  return "";
}

// Reads every item into a fresh list; the value stays as it was on failure.
template <class T>
std::string read_list(const Node& node, std::vector<T>& value, const std::string& of_what,
                      const std::function<std::string(const Node&, T&)>& read_item) {
  if (node.kind != Node::Kind::sequence) {
    return "a list of " + of_what;
  }
  std::vector<T> list;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    T item{};
    if (const std::string wanted = read_item(node.items[i], item); !wanted.empty()) {
      return wanted + " as item " + std::to_string(i) + ", which is " + node.items[i].found();
    }
    list.push_back(std::move(item));
  }
  value = std::move(list);
  return "";
}

template <class T, class Write>
std::string write_list(const std::vector<T>& values, const Write& write) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + write(value);
  }
  return "[" + text + "]";
}

std::string joined(const std::vector<std::string_view>& words, std::string_view separator) {
  std::string text;
  for (const std::string_view word : words) {
    text += (text.empty() ? "" : std::string(separator)) + std::string(word);
  }
  return text;
}

std::string read_word(const Node& node, const std::vector<std::string_view>& words, std::int64_t& index) {
  if (node.kind == Node::Kind::scalar) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (node.text == words[i]) {
        index = static_cast<std::int64_t>(i);
        return "";
      }
    }
  }
  const std::string near = node.kind == Node::Kind::scalar ? nearest_name(node.text, {words.begin(), words.end()}) : "";
  return "one of " + joined(words, ", ") + (near.empty() ? "" : "; did you mean " + near + "?");
}

// ~ and ${VAR} are expanded, a relative path starts from `base`. Returns what was expected, else "".
std::string read_path(const Node& node, std::filesystem::path& value) {
  std::string text;
  if (const std::string wanted = read_text(node, text); !wanted.empty()) {
    return wanted == "text" ? "a path" : "a path (the word null in quotes)";
  }
  std::string expanded;
  if (text == "~" || text.starts_with("~/")) {
    text.replace(0, 1, "${HOME}");
  } else if (text.starts_with("~")) {
    return "a path; of ~ only ~/... is expanded";
  }
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "${") != 0) {
      expanded.push_back(text[i++]);
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (end == std::string::npos) {
      return "a path whose ${ is closed by }";
    }
    const std::string name = text.substr(i + 2, end - i - 2);
    const char* variable = std::getenv(name.c_str());
    if (variable == nullptr) {
      return "a path; the environment variable " + name + " is not set";
    }
    expanded += variable;
    i = end + 1;
  }
  value = expanded.empty() ? std::filesystem::path() : (node.origin->base / expanded).lexically_normal();
  return "";
}

}  // namespace

void Binder::field(std::string_view key, bool& value, const Doc& doc) {
  impl_.field({key, "flag", "", doc,
               [&](const Node& node) -> std::string {
                 const auto flag =
                     node.kind == Node::Kind::scalar && !node.quoted ? parse_flag(node.text) : std::nullopt;
                 value = flag.value_or(value);
                 return flag ? "" : "true or false";
               },
               [&]() -> std::string { return value ? "true" : "false"; }});
}

void Binder::field(std::string_view key, std::int64_t& value, const Doc& doc) {
  using K = Kind<std::int64_t>;
  impl_.field({key, K::name, range_of(doc), doc, [&](const Node& node) { return read_number<K>(node, value, doc); },
               [&] { return K::write(value); }});
}

void Binder::field(std::string_view key, double& value, const Doc& doc) {
  using K = Kind<double>;
  impl_.field({key, K::name, range_of(doc), doc, [&](const Node& node) { return read_number<K>(node, value, doc); },
               [&] { return K::write(value); }});
}

void Binder::field(std::string_view key, std::string& value, const Doc& doc) {
  impl_.field({key, "text", "", doc, [&](const Node& node) { return read_text(node, value); },
               [&] { return yaml_scalar(value); }});
}

void Binder::field(std::string_view key, std::vector<std::int64_t>& value, const Doc& doc) {
  using K = Kind<std::int64_t>;
  impl_.field({key, "list of integers", range_of(doc), doc,
               [&](const Node& node) {
                 return read_list<std::int64_t>(node, value, "integers", [&](const Node& item, std::int64_t& number) {
                   return read_number<K>(item, number, doc);
                 });
               },
               [&] { return write_list(value, K::write); }});
}

void Binder::field(std::string_view key, std::vector<double>& value, const Doc& doc) {
  using K = Kind<double>;
  impl_.field({key, "list of numbers", range_of(doc), doc,
               [&](const Node& node) {
                 return read_list<double>(node, value, "numbers", [&](const Node& item, double& number) {
                   return read_number<K>(item, number, doc);
                 });
               },
               [&] { return write_list(value, K::write); }});
}

void Binder::field(std::string_view key, std::vector<std::string>& value, const Doc& doc) {
  impl_.field({key, "list of texts", "", doc,
               [&](const Node& node) { return read_list<std::string>(node, value, "texts", read_text); },
               [&] { return write_list(value, [](const std::string& text) { return yaml_scalar(text); }); }});
}

void Binder::field(std::string_view key, std::vector<std::vector<std::int64_t>>& value, const Doc& doc) {
  using K = Kind<std::int64_t>;
  using List = std::vector<std::int64_t>;
  impl_.field({key, "list of lists of integers", range_of(doc), doc,
               [&](const Node& node) {
                 return read_list<List>(node, value, "lists of integers", [&](const Node& inner, List& list) {
                   return read_list<std::int64_t>(inner, list, "integers", [&](const Node& item, std::int64_t& number) {
                     return read_number<K>(item, number, doc);
                   });
                 });
               },
               [&] { return write_list(value, [](const List& list) { return write_list(list, K::write); }); }});
}

void Binder::field(std::string_view key, std::optional<std::int64_t>& value, const Doc& doc) {
  using K = Kind<std::int64_t>;
  impl_.field({key, K::name, range_of(doc), doc, [&](const Node& node) { return read_number<K>(node, value, doc); },
               [&] { return value ? K::write(*value) : ""; }});
}

void Binder::token_count(std::string_view key, std::int64_t& value, const Doc& doc) {
  impl_.field({key, TokenCount::name, range_of(doc), doc,
               [&](const Node& node) { return read_number<TokenCount>(node, value, doc); },
               [&] { return TokenCount::write(value); }});
}

void Binder::token_count(std::string_view key, std::optional<std::int64_t>& value, const Doc& doc) {
  impl_.field({key, TokenCount::name, range_of(doc), doc,
               [&](const Node& node) { return read_number<TokenCount>(node, value, doc); },
               [&] { return value ? TokenCount::write(*value) : ""; }});
}

void Binder::path(std::string_view key, std::filesystem::path& value, const Doc& doc) {
  impl_.field(
      {key, "path", "", doc, [&](const Node& node) { return read_path(node, value); },
       [&] { return value.empty() ? "" : yaml_scalar(value.string()); },
       [&](const std::filesystem::path& base) { value = value.empty() ? value : (base / value).lexically_normal(); }});
}

void Binder::integer_or_word(std::string_view key, std::int64_t& value,
                             std::initializer_list<EnumName<std::int64_t>> words, const Doc& doc) {
  using K = Kind<std::int64_t>;
  std::vector<std::string_view> names;
  for (const auto& entry : words) {
    names.push_back(entry.name);
  }
  impl_.field({key, joined(names, " | ") + " | integer", range_of(doc), doc,
               [&](const Node& node) -> std::string {
                 for (const auto& entry : words) {
                   if (node.kind == Node::Kind::scalar && node.text == entry.name) {
                     value = entry.value;
                     return "";
                   }
                 }
                 const std::string wanted = read_number<K>(node, value, doc);
                 return wanted.empty() ? wanted : joined(names, ", ") + " or " + wanted;
               },
               [&]() -> std::string {
                 for (const auto& entry : words) {
                   if (value == entry.value) {
                     return std::string(entry.name);
                   }
                 }
                 return K::write(value);
               }});
}

void Binder::number_or_word(std::string_view key, std::optional<double>& value, std::string_view word, const Doc& doc) {
  using K = Kind<double>;
  impl_.field({key, std::string(word) + " | number", range_of(doc), doc,
               [&](const Node& node) -> std::string {
                 if (node.kind == Node::Kind::scalar && node.text == word) {
                   value.reset();
                   return "";
                 }
                 const std::string wanted = read_number<K>(node, value, doc);
                 return wanted.empty() ? wanted : std::string(word) + " or " + wanted;
               },
               [&] { return value ? K::write(*value) : std::string(word); }});
}

void Binder::list_or_word(std::string_view key, std::string& word, std::vector<std::int64_t>& list,
                          std::initializer_list<std::string_view> words, const Doc& doc) {
  using K = Kind<std::int64_t>;
  const std::vector<std::string_view> names(words);
  impl_.field({key, joined(names, " | ") + " | list of integers", range_of(doc), doc,
               [&](const Node& node) -> std::string {
                 if (node.kind != Node::Kind::sequence) {
                   std::int64_t index = 0;
                   if (!read_word(node, names, index).empty()) {
                     return joined(names, ", ") + " or a list of integers";
                   }
                   word = std::string(names[static_cast<std::size_t>(index)]);
                   list.clear();
                   return "";
                 }
                 std::string wanted = read_list<std::int64_t>(
                     node, list, "integers",
                     [&](const Node& item, std::int64_t& number) { return read_number<K>(item, number, doc); });
                 if (wanted.empty()) {
                   word.clear();
                 }
                 return wanted;
               },
               [&] { return word.empty() ? write_list(list, K::write) : word; }});
}

void Binder::one_or_list(std::string_view key, std::vector<std::int64_t>& value, const Doc& doc) {
  using K = Kind<std::int64_t>;
  impl_.field({key, "integer, or list of integers", range_of(doc), doc,
               [&](const Node& node) -> std::string {
                 if (node.kind != Node::Kind::sequence) {
                   std::int64_t number = 0;
                   const std::string wanted = read_number<K>(node, number, doc);
                   if (!wanted.empty()) {
                     return wanted + ", or a list of them";
                   }
                   value = {number};
                   return "";
                 }
                 return read_list<std::int64_t>(node, value, "integers", [&](const Node& item, std::int64_t& number) {
                   return read_number<K>(item, number, doc);
                 });
               },
               [&] { return value.size() == 1 ? K::write(value[0]) : write_list(value, K::write); }});
}

void Binder::choice_index(std::string_view key, std::int64_t& index, const std::vector<std::string_view>& words,
                          const Doc& doc) {
  impl_.field({key, joined(words, " | "), "", doc, [&](const Node& node) { return read_word(node, words, index); },
               [&] { return yaml_scalar(words[static_cast<std::size_t>(index)]); }});
}

void Binder::optional_choice_index(std::string_view key, std::optional<std::int64_t>& index,
                                   const std::vector<std::string_view>& words, const Doc& doc) {
  impl_.field({key, joined(words, " | "), "", doc,
               [&](const Node& node) {
                 std::int64_t found = 0;
                 std::string wanted = read_word(node, words, found);
                 if (wanted.empty()) {
                   index = found;
                 }
                 return wanted;
               },
               [&] { return index ? yaml_scalar(words[static_cast<std::size_t>(*index)]) : ""; }});
}

void Binder::choice_indices(std::string_view key, std::vector<std::int64_t>& indices,
                            const std::vector<std::string_view>& words, const Doc& doc) {
  impl_.field({key, "list of " + joined(words, " | "), "", doc,
               [&](const Node& node) {
                 std::vector<bool> seen(words.size());
                 return read_list<std::int64_t>(node, indices, "words",
                                                [&](const Node& item, std::int64_t& index) -> std::string {
                                                  std::string wanted = read_word(item, words, index);
                                                  if (wanted.empty()) {
                                                    const auto word = static_cast<std::size_t>(index);
                                                    wanted = seen[word] ? "each word once" : "";
                                                    seen[word] = true;
                                                  }
                                                  return wanted;
                                                });
               },
               [&] {
                 return write_list(
                     indices, [&](std::int64_t index) { return yaml_scalar(words[static_cast<std::size_t>(index)]); });
               }});
}

void Binder::section_with(std::string_view key, std::string_view doc, const std::function<void(Binder&)>& body) {
  impl_.section(key, doc, body);
}

void Binder::optional_section_with(std::string_view key, std::string_view doc, bool present,
                                   const std::function<void()>& make, const std::function<void()>& drop,
                                   const std::function<void(Binder&)>& body) {
  impl_.optional_section(key, doc, present, make, drop, body);
}

void Binder::named_sections_with(std::string_view key, std::string_view doc, const std::vector<std::string>& present,
                                 const std::function<void(Binder&, const std::string&)>& body,
                                 const std::function<void(const std::string&)>& drop) {
  impl_.named_sections(key, doc, present, body, drop);
}

void Binder::require(bool condition, std::string_view key, std::string_view message) {
  impl_.require(condition, key, message);
}
void Binder::no_effect(std::string_view key, bool when, std::string_view because) {
  impl_.no_effect(key, when, because);
}
bool Binder::reading() const { return impl_.reading(); }
bool Binder::writing() const { return impl_.writing(); }
bool Binder::given(std::string_view key) const { return impl_.given(key); }

}  // namespace hydra::config
