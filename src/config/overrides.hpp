#pragma once
// --set a.b.c=value: edits the tree before it is read, so that an override passes through the same typed reader.

#include <string>

#include "schema.hpp"
#include "yaml_tree.hpp"

namespace hydra::config {

// Replaces the value at the path (list items as a.b.0 or a.b[0]) by `value`, which is YAML, flow style included.
// Missing sections are made; that the path exists is checked by the reader.
void apply_override(Node& root, const std::string& text, const Schema& schema);

}  // namespace hydra::config
