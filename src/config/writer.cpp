// The writing back ends: the resolved config, and the documentation page.

#include <algorithm>

#include "back_end.hpp"
#include "schema.hpp"

namespace hydra::config {
namespace {

class Writer : public Binder::Impl {
 public:
  std::string text;

  void field(const Field& field) override {
    if (const std::string value = field.write(); !value.empty()) {
      text += std::string(indent_, ' ') + std::string(field.key) + ": " + value + "\n";
    }
  }
  void section(std::string_view key, std::string_view, const Body& body) override { nest(key, body); }
  void optional_section(std::string_view key, std::string_view, bool present, const std::function<void()>&,
                        const std::function<void()>&, const Body& body) override {
    if (present) {
      nest(key, body);
    }
  }
  void named_sections(std::string_view key, std::string_view, const std::vector<std::string>& present,
                      const std::function<void(Binder&, const std::string&)>& body,
                      const std::function<void(const std::string&)>&) override {
    nest(key, [&](Binder&) {
      for (const std::string& name : present) {
        nest(yaml_scalar(name), [&](Binder& inner) { body(inner, name); });
      }
    });
  }
  bool writing() const override { return true; }

 private:
  void nest(std::string_view key, const Body& body) {
    const std::string head = std::string(indent_, ' ') + std::string(key) + ":";
    const std::size_t begin = text.size();
    indent_ += 2;
    Binder inner(*this);
    body(inner);
    indent_ -= 2;
    text.insert(begin, head + (text.size() == begin ? " {}\n" : "\n"));
  }
  std::size_t indent_ = 0;
};

// A pipe would end a table's cell.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, "\\");
  }
  return text;
}

}  // namespace

std::string write_yaml(const Describe& describe) {
  Writer writer;
  Binder binder(writer);
  describe(binder);
  return std::move(writer.text);
}

std::string document(const Describe& describe) {
  std::string page;
  const Schema schema(describe);
  for (const SchemaSection& section : schema.sections()) {
    if (section.keys.empty() && section.doc.empty()) {
      continue;
    }
    page += "\n## " + (section.path.empty() ? "Top level" : "`" + section.path + "`") + "\n\n";
    if (!section.doc.empty()) {
      page += section.doc + (section.optional ? " The section may be absent." : "") + "\n\n";
    }
    if (section.keys.empty()) {
      continue;
    }
    page += "| key | type | default | unit | range | meaning |\n|---|---|---|---|---|---|\n";
    for (const SchemaKey& key : section.keys) {
      const std::string value = key.default_text.empty() ? "not given" : "`" + cell(key.default_text) + "`";
      page += "| `" + key.name + "` | " + cell(key.type) + " | " + value + " | " + key.unit + " | " + key.range +
              " | " + cell(key.text) + " |\n";
    }
  }
  return page;
}

}  // namespace hydra::config
