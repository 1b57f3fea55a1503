#include "overrides.hpp"

#include <algorithm>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "scalars.hpp"

namespace hydra::config {
namespace {

// "a.b[0].c" -> a, b, 0, c
std::vector<std::string> path_parts(std::string path, const std::string& option) {
  for (std::size_t open = path.find('['); open != std::string::npos; open = path.find('[')) {
    const std::size_t close = path.find(']', open);
    HYDRA_REQUIRE(close != std::string::npos, option, ": expected ] after [");
    path.replace(close, 1, "");
    path.replace(open, 1, ".");
  }
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, dot - begin));
    HYDRA_REQUIRE(!parts.back().empty(), option, ": found an empty name in the path, expected KEY.KEY=VALUE");
    begin = dot + 1;
  }
  return parts;
}

Node& child(Node& parent, const std::string& name, const std::string& path, const std::string& option,
            const std::shared_ptr<const Origin>& origin) {
  if (parent.kind == Node::Kind::sequence) {
    const auto index = parse_integer(name);
    HYDRA_REQUIRE(index && *index >= 0 && *index < static_cast<std::int64_t>(parent.items.size()), option,
                  ": found item ", name, " of ", path, ", expected 0 to ",
                  static_cast<std::int64_t>(parent.items.size()) - 1);
    return parent.items[static_cast<std::size_t>(*index)];
  }
  HYDRA_REQUIRE(parent.kind == Node::Kind::mapping, option, ": ", path, " is ", parent.found(),
                ", expected a section or a list");
  const auto found =
      std::find_if(parent.entries.begin(), parent.entries.end(), [&](const Entry& entry) { return entry.key == name; });
  if (found != parent.entries.end()) {
    return found->value;
  }
  Node made;
  made.kind = Node::Kind::mapping;
  made.origin = origin;
  parent.entries.push_back({name, 0, std::move(made)});
  return parent.entries.back().value;
}

}  // namespace

void apply_override(Node& root, const std::string& text, const Schema& schema) {
  const std::string option = "--set " + text;
  const std::size_t equals = text.find('=');
  HYDRA_REQUIRE(equals != std::string::npos && equals > 0, option, ": expected KEY.KEY=VALUE");
  const auto origin = std::make_shared<const Origin>(Origin{option, std::filesystem::current_path(), false});
  Node value = parse_yaml(text.substr(equals + 1), origin);
  HYDRA_REQUIRE(value.kind != Node::Kind::null, option, ": found nothing after =, expected a value");
  log_info("--set ", text.substr(0, equals), ": ", value.flow());

  Node* node = &root;
  std::string path, parent_path;
  for (const std::string& part : path_parts(text.substr(0, equals), option)) {
    // An item of a list that the file does not give: the list's default comes first.
    if (const SchemaKey* key = schema.key(parent_path, path.substr(parent_path.empty() ? 0 : parent_path.size() + 1));
        key != nullptr && node->kind == Node::Kind::mapping && node->entries.empty() &&
        key->default_text.starts_with('[')) {
      *node = parse_yaml(key->default_text, origin);
    }
    node = &child(*node, part, path, option, origin);
    parent_path = path;
    path += (path.empty() ? "" : ".") + part;
  }
  *node = std::move(value);
}

}  // namespace hydra::config
