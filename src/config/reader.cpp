// The reading back end: walks the tree along the describe function and collects every error, so that one run of the
// program reports them all.

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "back_end.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "overrides.hpp"
#include "schema.hpp"

namespace hydra::config {
namespace {

class Reader : public Binder::Impl {
 public:
  Reader(const Node& root, const Schema& schema) : root_(root), schema_(schema) {}

  void run(const Describe& describe) {
    inside(&root_, "", [&](Binder& binder) { describe(binder); });
    if (problems_.empty()) {
      return;
    }
    std::stable_sort(problems_.begin(), problems_.end(),
                     [](const Problem& a, const Problem& b) { return a.line < b.line; });
    std::string text;
    for (const Problem& problem : problems_) {
      text += (text.empty() ? "" : "\n") + problem.text;
    }
    throw UserError(text);
  }

  void field(const Field& field) override {
    const Entry* entry = take(field.key);
    if (entry == nullptr) {
      if (field.use_default) {
        field.use_default(root_.origin->base);
      }
      return;
    }
    const std::string before = field.write();
    if (const std::string wanted = field.read(entry->value); !wanted.empty()) {
      report(entry->value, path_of(field.key), "found " + entry->value.found() + ", expected " + wanted);
    } else if (field.write() != before) {
      section().changed.insert(std::string(field.key));
    }
  }

  void section(std::string_view key, std::string_view, const Body& body) override {
    const Entry* entry = take(key);
    if (entry == nullptr || is_mapping(*entry)) {
      inside(entry == nullptr ? nullptr : &entry->value, path_of(key), body);
    }
  }

  void optional_section(std::string_view key, std::string_view, bool, const std::function<void()>& make,
                        const std::function<void()>&, const Body& body) override {
    const Entry* entry = take(key);
    if (entry != nullptr && is_mapping(*entry)) {
      make();
      inside(&entry->value, path_of(key), body);
    }
  }

  void named_sections(std::string_view key, std::string_view, const std::vector<std::string>&,
                      const std::function<void(Binder&, const std::string&)>& body,
                      const std::function<void(const std::string&)>&) override {
    const Entry* names = take(key);
    if (names == nullptr || !is_mapping(*names)) {
      return;
    }
    inside(&names->value, path_of(key), [&](Binder&) {
      for (const Entry& entry : names->value.entries) {
        if (take(entry.key) != &entry) {
          continue;  // a duplicate, reported already
        }
        if (entry.key.empty() || entry.key.find_first_of(".:/\\ ") != std::string::npos) {
          report(entry.value, path_of(entry.key), "found a name with one of . : / \\ or a blank");
        } else if (is_mapping(entry)) {
          inside(&entry.value, path_of(entry.key), [&](Binder& inner) { body(inner, entry.key); });
        }
      }
    });
  }

  void require(bool condition, std::string_view key, std::string_view message) override {
    if (!condition) {
      section().unmet.emplace_back(key, message);
    }
  }

  void no_effect(std::string_view key, bool when, std::string_view because) override {
    if (when && section().changed.contains(std::string(key))) {
      section().idle.emplace_back(key, because);
    }
  }

  bool given(std::string_view key) const override {
    return sections_.back().node != nullptr && sections_.back().node->find(key) != nullptr;
  }
  bool reading() const override { return true; }

 private:
  struct Problem {
    int line;
    std::string text;
  };
  struct Section {
    const Node* node;  // null: not in the file
    std::string path;
    std::set<std::string> known, changed;
    std::vector<std::pair<std::string, std::string>> unmet, idle;  // key, message
  };

  Section& section() { return sections_.back(); }
  std::string path_of(std::string_view key) const {
    const std::string& path = sections_.back().path;
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }
  const Entry* take(std::string_view key) {
    section().known.insert(std::string(key));
    return section().node == nullptr ? nullptr : section().node->find(key);
  }
  bool is_mapping(const Entry& entry) {
    if (entry.value.kind == Node::Kind::mapping) {
      return true;
    }
    report(entry.value, path_of(entry.key),
           "found " + entry.value.found() + ", expected a section" +
               (entry.value.kind == Node::Kind::null ? " ({} for its defaults)" : ""));
    return false;
  }
  void report(const Node& place, const std::string& path, const std::string& message) {
    const int line = place.origin->has_lines ? place.line : std::numeric_limits<int>::max();
    problems_.push_back({line, place.where() + ": " + (path.empty() ? "" : path + ": ") + message});
  }

  void inside(const Node* node, const std::string& path, const Body& body) {
    const std::size_t problems_before = problems_.size();
    sections_.push_back({node, path, {}, {}, {}, {}});
    if (node != nullptr) {
      report_duplicates(*node);
    }
    Binder binder(*this);
    body(binder);
    if (node != nullptr) {
      report_unknown(*node);
    }
    // Conditions between keys say nothing useful while the keys themselves are wrong.
    if (problems_.size() == problems_before) {
      for (const auto& [key, message] : section().unmet) {
        report(place_of(key), path_of(key), message);
      }
      for (const auto& [key, because] : section().idle) {
        log_warning(place_of(key).where(), ": ", path_of(key), " has no effect: ", because);
      }
    }
    sections_.pop_back();
  }

  // The key's value if the file has it, else the innermost section that it has.
  const Node& place_of(const std::string& key) const {
    const Node* node = sections_.back().node;
    if (node != nullptr) {
      const Entry* entry = node->find(key);
      return entry == nullptr ? *node : entry->value;
    }
    for (auto outer = sections_.rbegin(); outer != sections_.rend(); ++outer) {
      if (outer->node != nullptr) {
        return *outer->node;
      }
    }
    return root_;
  }

  void report_duplicates(const Node& node) {
    std::map<std::string, const Entry*> first;
    for (const Entry& entry : node.entries) {
      const auto [earlier, is_new] = first.emplace(entry.key, &entry);
      if (!is_new) {
        report(entry.value, path_of(entry.key),
               "the key is given twice, in lines " + std::to_string(earlier->second->line) + " and " +
                   std::to_string(entry.line));
      }
    }
  }

  void report_unknown(const Node& node) {
    for (const Entry& entry : node.entries) {
      if (!section().known.contains(entry.key)) {
        Node place = entry.value;
        place.line = entry.line;
        report(place, path_of(entry.key), "unknown key" + schema_.advice(section().path, entry.key));
        section().known.insert(entry.key);  // once
      }
    }
  }

  const Node& root_;
  const Schema& schema_;
  std::vector<Section> sections_;
  std::vector<Problem> problems_;
};

void read_tree(Node root, const std::vector<std::string>& overrides, const Describe& describe) {
  if (root.kind != Node::Kind::mapping) {
    fail_request(root.where(), ": found ", root.kind == Node::Kind::null ? "an empty file" : root.found(),
                 ", expected a mapping of keys");
  }
  const Schema schema(describe);
  for (const std::string& text : overrides) {
    apply_override(root, text, schema);
  }
  Reader(root, schema).run(describe);
}

}  // namespace

void read_yaml_text(std::string_view text, const std::filesystem::path& name, const std::vector<std::string>& overrides,
                    const Describe& describe) {
  const auto folder = std::filesystem::absolute(name).parent_path();
  read_tree(parse_yaml(text, std::make_shared<const Origin>(Origin{name.string(), folder, true})), overrides, describe);
}

void read_yaml(const std::filesystem::path& file, const std::vector<std::string>& overrides, const Describe& describe) {
  if (!file.empty()) {
    read_yaml_text(read_file(file), file, overrides, describe);
    return;
  }
  Node root;
  root.kind = Node::Kind::mapping;
  root.origin = std::make_shared<const Origin>(Origin{"defaults", std::filesystem::current_path(), false});
  read_tree(std::move(root), overrides, describe);
}

}  // namespace hydra::config
