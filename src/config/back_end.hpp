#pragma once
// What stands behind a Binder. Binder turns each typed key into a Field; a back end reads it from a tree, writes it, or
// collects it for documentation, and none of them knows the types.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "yaml_tree.hpp"

namespace hydra::config {

struct Field {
  std::string_view key;
  std::string type;   // for people: "integer", "auto | integer"
  std::string range;  // "1 to 32", ">= 0", or empty
  Doc doc;
  // Takes the value from a node; on failure returns what was expected (the value is unchanged), else "".
  std::function<std::string(const Node&)> read;
  // The value as flow-style YAML; "" when there is none.
  std::function<std::string()> write;
  // Called when the key is not given (paths: a relative default starts from the config file's folder too).
  std::function<void(const std::filesystem::path& base)> use_default = {};
};

using Body = std::function<void(Binder&)>;

struct Binder::Impl {
  virtual ~Impl() = default;
  virtual void field(const Field& field) = 0;
  virtual void section(std::string_view key, std::string_view doc, const Body& body) = 0;
  virtual void optional_section(std::string_view key, std::string_view doc, bool present,
                                const std::function<void()>& make, const std::function<void()>& drop,
                                const Body& body) = 0;
  virtual void named_sections(std::string_view key, std::string_view doc, const std::vector<std::string>& present,
                              const std::function<void(Binder&, const std::string&)>& body,
                              const std::function<void(const std::string&)>& drop) = 0;
  // Only reading has something to do here.
  virtual void require(bool /*condition*/, std::string_view /*key*/, std::string_view /*message*/) {}
  virtual void no_effect(std::string_view /*key*/, bool /*when*/, std::string_view /*because*/) {}
  virtual bool given(std::string_view /*key*/) const { return false; }
  virtual bool reading() const { return false; }
  virtual bool writing() const { return false; }
};

}  // namespace hydra::config
