#pragma once
// The config section `data`: sources with weights, packing and held-out text (method.md section 8).

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/niah.hpp"

namespace hydra::data {

// reset: everything restarts at a document's start; eos_join: documents joined by EOS, cut and treated as one text.
enum class Packing { reset, eos_join };

enum class Synthetic { none, retrieval };

// One source: either `path` or `synthetic`.
struct SourceConfig {
  std::filesystem::path path;  // PREFIX of .bin/.idx, a text or JSONL file (.xz, .zst, .gz too), or a directory of them
  std::string text_key = "text";
  Synthetic synthetic = Synthetic::none;
  double weight = 1.0;  // share of the tokens, relative to the other sources
};
void describe(config::Binder& binder, SourceConfig& value);

struct ValidationConfig {
  std::filesystem::path path;  // empty: no validation
  std::string text_key = "text";
  std::int64_t tokens = 262144;
  std::int64_t every = 500;  // steps; a stage's validate_every overrides it
};
void describe(config::Binder& binder, ValidationConfig& value);

struct DataConfig {
  Packing packing = Packing::reset;
  std::map<std::string, SourceConfig> sources;
  ValidationConfig validation;
};
void describe(config::Binder& binder, DataConfig& value);

// A key that lists needle tasks by name, out of those in `from`.
void describe_tasks(config::Binder& binder, std::string_view key, std::vector<NiahTask>& value,
                    std::span<const NiahTask> from, const config::Doc& doc);

}  // namespace hydra::data
