#pragma once
// Any bytes as a config file: refused with a message that names the file, or read to a tree whose resolved form reads
// back to the same tree.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hydrahead/base/error.hpp"
#include "hydrahead/config/binder.hpp"

namespace hydra::fuzz {

struct ConfigStage {
  std::optional<std::int64_t> tokens = std::nullopt;
  double rate = 0.5;
};
inline void describe(config::Binder& binder, ConfigStage& value) {
  binder.token_count("tokens", value.tokens, {.text = "Tokens.", .min = 1});
  binder.field("rate", value.rate, {"Rate."});
}

struct ConfigTree {
  bool flag = false;
  std::int64_t count = 7;
  std::string name = "x";
  std::vector<std::string> names;
  std::vector<double> numbers;
  std::vector<std::vector<std::int64_t>> pairs;
  std::filesystem::path path;
  std::optional<ConfigStage> stage;
  std::map<std::string, ConfigStage> stages;
};
inline void describe(config::Binder& binder, ConfigTree& value) {
  binder.field("flag", value.flag, {"A flag."});
  binder.field("count", value.count, {"A count."});
  binder.field("name", value.name, {"A name."});
  binder.field("names", value.names, {"Names."});
  binder.field("numbers", value.numbers, {"Numbers."});
  binder.field("pairs", value.pairs, {"Pairs."});
  binder.path("path", value.path, {"A path."});
  binder.optional_section("stage", value.stage, "A stage.");
  binder.named_sections("stages", value.stages, "Stages.");
}

inline std::string read_and_write(std::string_view text) {
  ConfigTree tree;
  const auto describe_tree = [&](config::Binder& binder) { describe(binder, tree); };
  config::read_yaml_text(text, "/fuzz/run.yaml", {}, describe_tree);
  return config::write_yaml(describe_tree);
}

inline int fuzz_config_yaml(std::span<const std::byte> bytes) {
  std::string written;
  try {
    written = read_and_write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const UserError& error) {
    HYDRA_CHECK(std::string_view(error.what()).starts_with("/fuzz/run.yaml"), error.what());
    return 0;
  }
  HYDRA_CHECK(read_and_write(written) == written, written);
  return 0;
}

}  // namespace hydra::fuzz
