#pragma once
// The strict typed view of a YAML file. Every config struct has one free function
//     void describe(config::Binder& binder, T& value);
// beside its declaration, which names each key with its default (the member's value), unit, range and meaning. The same
// function serves four ends: reading a file (every unknown, duplicate or mistyped key is collected with file:line and
// the nearest valid name), `--set key=value`, writing the resolved config, and the generated page docs/config.md. This
// header knows no key.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hydra::config {

// What is said about one key. `unit` is "" for none. Bounds are inclusive unless the doc says otherwise.
struct Doc {
  std::string_view text;
  std::string_view unit = "";
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

class Binder {
 public:
  struct Impl;  // src/config/binder.cpp
  explicit Binder(Impl& impl) : impl_(impl) {}

  void field(std::string_view key, bool& value, const Doc& doc);
  void field(std::string_view key, std::int64_t& value, const Doc& doc);  // also 1_000, 1e3 when integral
  void field(std::string_view key, double& value, const Doc& doc);
  void field(std::string_view key, std::string& value, const Doc& doc);
  void field(std::string_view key, std::vector<std::int64_t>& value, const Doc& doc);
  void field(std::string_view key, std::vector<double>& value, const Doc& doc);
  void field(std::string_view key, std::vector<std::string>& value, const Doc& doc);
  void field(std::string_view key, std::vector<std::vector<std::int64_t>>& value, const Doc& doc);
  // Keys that may be left out; the resolved config leaves them out too.
  void field(std::string_view key, std::optional<std::int64_t>& value, const Doc& doc);
  void token_count(std::string_view key, std::optional<std::int64_t>& value, const Doc& doc);
  // A token count: an integer, or a number with the suffix K, M or B (0.3B = 300,000,000).
  void token_count(std::string_view key, std::int64_t& value, const Doc& doc);
  // Relative to the config file (to the current directory for --set); ~ and ${VAR} are expanded; empty = not given.
  void path(std::string_view key, std::filesystem::path& value, const Doc& doc);
  // A scalar that is either a number of the given range or one of the words (for example `micro_batch: auto | N`).
  // Words map to the negative sentinel given with them.
  void integer_or_word(std::string_view key, std::int64_t& value, std::initializer_list<EnumName<std::int64_t>> words,
                       const Doc& doc);

  // A number of the given range, or the word, which stands for no value.
  void number_or_word(std::string_view key, std::optional<double>& value, std::string_view word, const Doc& doc);
  // A list of integers, or one of the words; `word` is empty when a list was given.
  void list_or_word(std::string_view key, std::string& word, std::vector<std::int64_t>& list,
                    std::initializer_list<std::string_view> words, const Doc& doc);
  // A list of integers; a single one may stand without brackets.
  void one_or_list(std::string_view key, std::vector<std::int64_t>& value, const Doc& doc);

  template <class E>
  requires std::is_enum_v<E>
  void choice(std::string_view key, E& value, std::initializer_list<EnumName<E>> names, const Doc& doc) {
    std::vector<std::string_view> words;
    std::int64_t index = -1;
    for (const auto& entry : names) {
      if (entry.value == value) {
        index = static_cast<std::int64_t>(words.size());
      }
      words.push_back(entry.name);
    }
    choice_index(key, index, words, doc);
    value = std::data(names)[index].value;
  }
  // A choice that may be left out.
  template <class E>
  void choice(std::string_view key, std::optional<E>& value, std::initializer_list<EnumName<E>> names, const Doc& doc) {
    std::vector<std::string_view> words;
    std::optional<std::int64_t> index;
    for (const auto& entry : names) {
      if (value && entry.value == *value) {
        index = static_cast<std::int64_t>(words.size());
      }
      words.push_back(entry.name);
    }
    optional_choice_index(key, index, words, doc);
    if (index) {
      value = std::data(names)[*index].value;
    }
  }
  // A list of words without repetition.
  template <class E>
  void choices(std::string_view key, std::vector<E>& values, const std::vector<EnumName<E>>& names, const Doc& doc) {
    std::vector<std::string_view> words;
    for (const auto& entry : names) {
      words.push_back(entry.name);
    }
    std::vector<std::int64_t> indices;
    for (const E value : values) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].value == value) {
          indices.push_back(static_cast<std::int64_t>(i));
        }
      }
    }
    choice_indices(key, indices, words, doc);
    values.clear();
    for (const std::int64_t index : indices) {
      values.push_back(names[index].value);
    }
  }

  // A nested mapping.
  template <class T>
  void section(std::string_view key, T& value, std::string_view doc) {
    section_with(key, doc, [&](Binder& inner) { describe(inner, value); });
  }
  // A nested mapping that may be absent.
  template <class T>
  void optional_section(std::string_view key, std::optional<T>& value, std::string_view doc) {
    optional_section_with(
        key, doc, value.has_value(), [&] { value.emplace(); }, [&] { value.reset(); },
        [&](Binder& inner) { describe(inner, *value); });
  }
  // A mapping from names of the user's choice to structs (data.sources).
  template <class T>
  void named_sections(std::string_view key, std::map<std::string, T>& values, std::string_view doc) {
    named_sections_with(
        key, doc, keys_of(values), [&](Binder& inner, const std::string& name) { describe(inner, values[name]); },
        [&](const std::string& name) { values.erase(name); });
  }

  // A condition between keys, checked when a file is read: reported with the section's place, never thrown at once.
  void require(bool condition, std::string_view key, std::string_view message);
  // Warns once that a key which the file changes from its default does nothing `when` the condition holds.
  void no_effect(std::string_view key, bool when, std::string_view because);
  // True while values come from a file (not while writing or documenting): for derived values.
  bool reading() const;
  // True while the resolved config is written: keys that must not stand together are left out.
  bool writing() const;
  // True if the file or an override gives this key of the current section.
  bool given(std::string_view key) const;

 private:
  void choice_index(std::string_view key, std::int64_t& index, const std::vector<std::string_view>& words,
                    const Doc& doc);
  void optional_choice_index(std::string_view key, std::optional<std::int64_t>& index,
                             const std::vector<std::string_view>& words, const Doc& doc);
  void choice_indices(std::string_view key, std::vector<std::int64_t>& indices,
                      const std::vector<std::string_view>& words, const Doc& doc);
  void section_with(std::string_view key, std::string_view doc, const std::function<void(Binder&)>& body);
  void optional_section_with(std::string_view key, std::string_view doc, bool present,
                             const std::function<void()>& make, const std::function<void()>& drop,
                             const std::function<void(Binder&)>& body);
  void named_sections_with(std::string_view key, std::string_view doc, const std::vector<std::string>& present,
                           const std::function<void(Binder&, const std::string&)>& body,
                           const std::function<void(const std::string&)>& drop);
  template <class T>
  static std::vector<std::string> keys_of(const std::map<std::string, T>& values) {
    std::vector<std::string> keys;
    for (const auto& [name, unused] : values) {
      keys.push_back(name);
    }
    return keys;
  }
  Impl& impl_;
};

using Describe = std::function<void(Binder&)>;

// Reads `file` (empty path: defaults only), then applies overrides "a.b.c=value" in order. All errors of the file are
// reported together in one UserError, a line each: file:line: key: found, expected.
void read_yaml(const std::filesystem::path& file, const std::vector<std::string>& overrides, const Describe& describe);

// The same for text in memory (tests); `name` stands in messages and its folder for relative paths.
void read_yaml_text(std::string_view text, const std::filesystem::path& name, const std::vector<std::string>& overrides,
                    const Describe& describe);

// The whole tree with its current values as YAML that read_yaml accepts.
std::string write_yaml(const Describe& describe);

// A Markdown table a section: key, type, default, unit, range or words, meaning.
std::string document(const Describe& describe);

}  // namespace hydra::config
