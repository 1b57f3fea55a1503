#pragma once
// A YAML document as a tree that keeps what the strict reader needs: where each value stands, whether it was quoted,
// and keys that are given twice. Built from yaml-cpp's events: its own node tree hides all of that.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::config {

// A file, or one --set option.
struct Origin {
  std::string name;            // "run.yaml" or "--set seed=3"
  std::filesystem::path base;  // folder that relative paths start from
  bool has_lines = true;
};

struct Entry;

struct Node {
  enum class Kind { null, scalar, sequence, mapping };
  Kind kind = Kind::null;
  std::string text;  // of a scalar
  bool quoted = false;
  int line = 0;  // from 1
  std::shared_ptr<const Origin> origin;
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the order of the file, merged ones (<<) included

  const Entry* find(std::string_view key) const;  // the first of that name
  std::string where() const;                      // "run.yaml:12" or "--set seed=3"
  std::string found() const;                      // for messages: `"abc"`, "a list", "nothing"
  std::string flow() const;                       // flow-style YAML
};

struct Entry {
  std::string key;
  int line = 0;
  Node value;
};

// One document. A UserError "name:line: ..." refuses what is no YAML, tags, several documents, tabs as indentation,
// control characters, bad UTF-8, aliases of unfinished nodes and trees of more than 100,000 nodes.
Node parse_yaml(std::string_view text, std::shared_ptr<const Origin> origin);

// `text` as a YAML scalar: plain where that is unambiguous, else in double quotes.
std::string yaml_scalar(std::string_view text);

}  // namespace hydra::config
