#pragma once
// Every section and key of a tree, collected from its describe function: for advice on wrong keys, for overrides of
// list items, and for the documentation page.

#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/config/binder.hpp"

namespace hydra::config {

struct SchemaKey {
  std::string name, type, default_text, unit, range, text;
};

struct SchemaSection {
  std::string path;  // "" for the root; the user's own names are written as NAME: "data.sources.NAME"
  std::string doc;
  bool optional = false;
  std::vector<SchemaKey> keys;
  std::vector<std::string> subsections;
};

class Schema {
 public:
  explicit Schema(const Describe& describe);

  const std::vector<SchemaSection>& sections() const { return sections_; }
  // The section of a path as a user writes it, or nothing.
  const SchemaSection* section(std::string_view path) const;
  const SchemaKey* key(std::string_view section_path, std::string_view name) const;
  // Where a wrong key of a section (both as in the file) would belong, or the nearest name: "; did you mean ...".
  std::string advice(std::string_view section_path, std::string_view wrong) const;

 private:
  std::vector<SchemaSection> sections_;
};

}  // namespace hydra::config
