#include "yaml_tree.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/json.hpp"

namespace hydra::config {
namespace {

constexpr std::size_t max_nodes = 100'000;

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(Json(std::string(text)).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) {
    count += count_nodes(item);
  }
  for (const Entry& entry : node.entries) {
    count += count_nodes(entry.value);
  }
  return count;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::shared_ptr<const Origin> origin) : origin_(std::move(origin)) {}

  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { finish(make(mark, Node::Kind::null), anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      refuse(mark, "an alias inside of what it stands for");
    }
    nodes_ += count_nodes(found->second);
    check_size(mark);
    finish(found->second, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    Node node = make(mark, Node::Kind::scalar);
    node.text = value;
    node.quoted = tag == "!";
    if (!is_utf8(value)) {  // yaml-cpp reads the escapes \N and \_ as single bytes
      refuse(mark, "an escape that is not supported, expected \\u and four digits");
    }
    finish(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open_.push_back({make(mark, Node::Kind::sequence), anchor});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open_.push_back({make(mark, Node::Kind::mapping), anchor});
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    std::optional<std::string> key = std::nullopt;  // read, its value not yet
    int key_line = 0;
    bool merges = false;  // the key is <<
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    Node place;
    place.origin = origin_;
    place.line = mark.line + 1;
    fail_request(place.where(), ": found ", what);
  }
  void check_size(const YAML::Mark& mark) const {
    if (nodes_ > max_nodes) {
      refuse(mark, "more than 100,000 values");
    }
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "" && tag != "?" && tag != "!") {
      refuse(mark, "the tag <" + tag + ">, expected none: the keys have fixed types");
    }
  }
  Node make(const YAML::Mark& mark, Node::Kind kind) {
    ++nodes_;
    check_size(mark);
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.origin = origin_;
    return node;
  }
  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    finish(std::move(done.node), done.anchor);
  }
  void finish(Node node, YAML::anchor_t anchor) {
    if (node.kind == Node::Kind::null && !open_.empty() && open_.back().key) {
      node.line = open_.back().key_line;  // the parser's mark of nothing is the next token
    }
    if (anchor != 0) {
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::sequence) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      HYDRA_REQUIRE(node.kind == Node::Kind::scalar, node.where(), ": found ", node.found(),
                    " as a key, expected a name");
      parent.key = node.text;
      parent.key_line = node.line;
      parent.merges = node.text == "<<" && !node.quoted;
      return;
    } else if (parent.merges) {
      merge(parent.node, node);
    } else {
      parent.node.entries.push_back({*parent.key, parent.key_line, std::move(node)});
    }
    parent.key.reset();
  }
  static void merge(Node& into, const Node& from) {
    if (from.kind == Node::Kind::sequence) {
      for (const Node& item : from.items) {
        merge(into, item);
      }
      return;
    }
    HYDRA_REQUIRE(from.kind == Node::Kind::mapping, from.where(), ": <<: found ", from.found(),
                  ", expected a mapping or a list of mappings");
    into.entries.insert(into.entries.end(), from.entries.begin(), from.entries.end());
  }

  std::shared_ptr<const Origin> origin_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

// What yaml-cpp would read without a word: control characters (byte 4 ends its input), bad UTF-8, tabs as indentation.
std::string checked_text(std::string_view text, const Origin& origin) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
  }
  std::string clean;
  clean.reserve(text.size());
  Node place;
  place.origin = std::make_shared<Origin>(origin);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++place.line;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      HYDRA_REQUIRE((byte >= 0x20 && byte != 0x7F) || byte == '\t', place.where(), ": found the control character ",
                    static_cast<int>(byte), ", expected text");
    }
    HYDRA_REQUIRE(is_utf8(line), place.where(), ": found bytes that are not UTF-8");
    const std::size_t content = line.find_first_not_of(" \t");
    const bool tab = line.substr(0, content).find('\t') != std::string_view::npos;
    HYDRA_REQUIRE(content == std::string_view::npos || line[content] == '#' || !tab, place.where(),
                  ": found a tab as indentation, expected blanks");
    clean.append(content == std::string_view::npos ? std::string_view() : line).push_back('\n');
  }
  return clean;
}

// JSON's string form is YAML's double-quoted one, but for DEL, which JSON leaves as it is and YAML does not admit.
std::string quoted_scalar(std::string_view text) {
  std::string json = Json(std::string(text)).dump();
  for (std::size_t at = json.find('\x7F'); at != std::string::npos; at = json.find('\x7F')) {
    json.replace(at, 1, "\\u007f");
  }
  return json;
}

}  // namespace

const Entry* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) {
      return &entry;
    }
  }
  return nullptr;
}

std::string Node::where() const {
  return origin->has_lines && line > 0 ? origin->name + ":" + std::to_string(line) : origin->name;
}

std::string Node::found() const {
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::scalar: return (quoted ? "the quoted text \"" : "\"") + text + "\"";
    case Kind::sequence: return "a list";
    case Kind::mapping: return "a mapping";
  }
  return {};
}

std::string Node::flow() const {
  switch (kind) {
    case Kind::null: return "null";
    case Kind::scalar: return quoted ? quoted_scalar(text) : yaml_scalar(text);
    default: break;
  }
  std::string inner;
  for (const Node& item : items) {
    inner += (inner.empty() ? "" : ", ") + item.flow();
  }
  for (const Entry& entry : entries) {
    inner += (inner.empty() ? "" : ", ") + yaml_scalar(entry.key) + ": " + entry.value.flow();
  }
  return kind == Kind::sequence ? "[" + inner + "]" : "{" + inner + "}";
}

std::string yaml_scalar(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  const bool plain = !text.empty() && text.find_first_not_of(safe) == std::string_view::npos && text != "-" &&
                     text != "null" && text != "Null" && text != "NULL" && !text.starts_with("---") && text != "...";
  return plain ? std::string(text) : quoted_scalar(text);
}

Node parse_yaml(std::string_view text, std::shared_ptr<const Origin> origin) {
  Node place;
  place.origin = origin;
  std::istringstream stream(checked_text(text, *origin));
  try {
    YAML::Parser parser(stream);
    TreeBuilder first(origin);
    if (!parser.HandleNextDocument(first)) {
      return place;
    }
    TreeBuilder second(origin);
    if (parser.HandleNextDocument(second)) {
      fail_request(second.root.where(), ": found a second document, expected one");
    }
    return std::move(first.root);
  } catch (const YAML::DeepRecursion& error) {
    place.line = error.mark.line + 1;
    fail_request(place.where(), ": found values nested ", error.depth(), " deep");
  } catch (const YAML::Exception& error) {
    place.line = error.mark.line + 1;
    fail_request(place.where(), ": no valid YAML: ", error.msg);
  }
}

}  // namespace hydra::config
