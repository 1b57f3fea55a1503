#include "schema.hpp"

#include <algorithm>

#include "back_end.hpp"
#include "edit_distance.hpp"

namespace hydra::config {
namespace {

constexpr const char* any_name = "NAME";

std::string below(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
}

class Collector : public Binder::Impl {
 public:
  explicit Collector(std::vector<SchemaSection>& sections) : sections_(sections) { sections_.push_back({}); }

  void field(const Field& field) override {
    current().keys.push_back({std::string(field.key), field.type, field.write(), std::string(field.doc.unit),
                              field.range, std::string(field.doc.text)});
  }
  void section(std::string_view key, std::string_view doc, const Body& body) override { enter(key, doc, false, body); }
  void optional_section(std::string_view key, std::string_view doc, bool present, const std::function<void()>& make,
                        const std::function<void()>& drop, const Body& body) override {
    if (!present) {
      make();
    }
    enter(key, doc, true, body);
    if (!present) {
      drop();
    }
  }
  void named_sections(std::string_view key, std::string_view doc, const std::vector<std::string>& present,
                      const std::function<void(Binder&, const std::string&)>& body,
                      const std::function<void(const std::string&)>& drop) override {
    enter(key, "", false, [&](Binder&) { enter(any_name, doc, false, [&](Binder& inner) { body(inner, any_name); }); });
    if (std::find(present.begin(), present.end(), any_name) == present.end()) {
      drop(any_name);
    }
  }

 private:
  SchemaSection& current() { return sections_[open_]; }
  void enter(std::string_view key, std::string_view doc, bool optional, const Body& body) {
    current().subsections.emplace_back(key);
    const std::size_t parent = open_;
    SchemaSection section;
    section.path = below(current().path, key);
    section.doc = doc;
    section.optional = optional;
    open_ = sections_.size();
    sections_.push_back(std::move(section));
    Binder inner(*this);
    body(inner);
    open_ = parent;
  }
  std::vector<SchemaSection>& sections_;
  std::size_t open_ = 0;
};

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    parts.push_back(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return parts;
}

bool matches(std::string_view pattern, std::string_view path) {
  const auto a = components(pattern), b = components(path);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::string_view x, std::string_view y) { return x == any_name || x == y; });
}

std::vector<std::string> names_of(const SchemaSection& section) {
  std::vector<std::string> names = section.subsections;
  for (const SchemaKey& key : section.keys) {
    names.push_back(key.name);
  }
  return names;
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > most ? text + ", ..." : text;
}

}  // namespace

Schema::Schema(const Describe& describe) {
  Collector collector(sections_);
  Binder binder(collector);
  describe(binder);
}

const SchemaSection* Schema::section(std::string_view path) const {
  for (const SchemaSection& section : sections_) {
    if (matches(section.path, path)) {
      return &section;
    }
  }
  return nullptr;
}

const SchemaKey* Schema::key(std::string_view section_path, std::string_view name) const {
  if (const SchemaSection* found = section(section_path)) {
    for (const SchemaKey& key : found->keys) {
      if (key.name == name) {
        return &key;
      }
    }
  }
  return nullptr;
}

std::string Schema::advice(std::string_view section_path, std::string_view wrong) const {
  const SchemaSection* here = section(section_path);
  const std::string near = here == nullptr ? "" : nearest_name(wrong, names_of(*here));
  std::vector<std::string> homes, near_elsewhere;
  for (const SchemaSection& other : sections_) {
    const auto names = names_of(other);
    if (std::find(names.begin(), names.end(), wrong) != names.end()) {
      homes.push_back(other.path.empty() ? "the top level" : other.path);
    }
    if (const std::string name = nearest_name(wrong, names); !name.empty() && &other != here) {
      near_elsewhere.push_back(below(other.path, name));
    }
  }
  if (!homes.empty()) {
    return "; it belongs to " + listed(homes, 3) + (near.empty() ? "" : " (or did you mean " + near + "?)");
  }
  if (!near.empty()) {
    return "; did you mean " + near + "?";
  }
  if (!near_elsewhere.empty()) {
    return "; the nearest name is " + listed(near_elsewhere, 3);
  }
  return here == nullptr ? "" : "; expected one of " + listed(names_of(*here), 30);
}

}  // namespace hydra::config
