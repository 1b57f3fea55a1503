#include "hydrahead/train/run_directory.hpp"

#include <array>
#include <map>
#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/checkpoint/retention.hpp"

namespace hydra::train {
namespace {

constexpr std::array<const char*, 3> kStages{"align", "distill", "long_context"};

void forget_bookkeeping(StageSchedule& schedule) {
  schedule.micro_batch = kAutoMicroBatch;
  schedule.validate_every.reset();
  schedule.checkpoint_every.reset();
}

// "a.b.c" -> value of every scalar line of block-style YAML; list items and flow values belong to their key.
std::map<std::string, std::string> flat_keys(const std::string& yaml) {
  std::map<std::string, std::string> keys;
  std::vector<std::pair<std::size_t, std::string>> path;  // indentation and key
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == '#') {
      continue;
    }
    const std::size_t colon = line.find(':', indent);
    if (line[indent] == '-' || colon == std::string::npos) {
      keys[path.empty() ? "" : path.back().second] += line.substr(indent) + " ";
      continue;
    }
    while (!path.empty() && path.back().first >= indent) {
      path.pop_back();
    }
    const std::string key = (path.empty() ? "" : path.back().second + ".") + line.substr(indent, colon - indent);
    path.emplace_back(indent, key);
    keys[key] = colon + 2 < line.size() ? line.substr(colon + 2) : "";
  }
  return keys;
}

bool begun(const RunDirectory& directory, const std::string& stage) {
  return !checkpoint::list_checkpoints(directory.stage(stage)).empty();
}

void require_same_settings(const RunDirectory& directory, const RunConfig& config) {
  const RunConfig before = read_run_config(directory.config_file());
  std::vector<std::string> phases{""};
  for (const char* stage : kStages) {
    if (begun(directory, stage)) {
      phases.emplace_back(stage);
    }
  }
  const std::string& last = phases.back();  // its settings include those of the phases before
  const auto differences = setting_differences(deciding_settings(before, last), deciding_settings(config, last));
  if (!differences.empty()) {
    std::string list;
    for (const std::string& difference : differences) {
      list += "\n  " + difference;
    }
    fail_request(directory.root.string(), ": this run was begun with other settings", list,
                 "\nexpected the same ones; another run needs another run_dir");
  }
}

}  // namespace

std::string deciding_settings(const RunConfig& config, const std::string& stage) {
  const RunConfig defaults;
  RunConfig part = config;
  part.run_dir = defaults.run_dir;
  part.device = defaults.device;
  part.select = defaults.select;
  part.parallel = defaults.parallel;
  part.checkpoint = defaults.checkpoint;
  part.eval = defaults.eval;
  part.cache = defaults.cache;
  part.log = defaults.log;
  part.data.validation = defaults.data.validation;
  if (stage.empty()) {
    part.optimizer = defaults.optimizer;
    part.stages.align.reset();
  }
  if (stage != "distill" && stage != "long_context") {
    part.stages.distill.reset();
  }
  if (stage != "long_context") {
    part.stages.long_context.reset();
  }
  if (part.stages.align) {
    forget_bookkeeping(part.stages.align->schedule);
  }
  if (part.stages.distill) {
    forget_bookkeeping(part.stages.distill->schedule);
  }
  if (part.stages.long_context) {
    forget_bookkeeping(part.stages.long_context->schedule);
  }
  return resolved_yaml(part);
}

std::vector<std::string> setting_differences(const std::string& before, const std::string& after,
                                             const std::string& word) {
  const auto old_keys = flat_keys(before);
  const auto new_keys = flat_keys(after);
  std::vector<std::string> differences;
  for (const auto& [key, value] : new_keys) {
    const auto old_value = old_keys.find(key);
    if (old_value == old_keys.end()) {
      differences.push_back(key + ": " + value + ", " + word + " absent");
    } else if (old_value->second != value) {
      differences.push_back(key + ": " + value + ", " + word + " " + old_value->second);
    }
  }
  for (const auto& [key, value] : old_keys) {
    if (new_keys.count(key) == 0) {
      differences.push_back(key + ": absent, " + word + " " + value);
    }
  }
  return differences;
}

void check_run_directory(const RunConfig& config, bool resume, const std::string& only_stage) {
  const RunDirectory directory{config.run_dir};
  const std::string where = directory.root.string();
  if (!fs::exists(directory.root)) {
    return;
  }
  HYDRA_REQUIRE(fs::is_directory(directory.root), where, ": run_dir is no directory");
  if (fs::is_empty(directory.root)) {
    return;
  }
  HYDRA_REQUIRE(resume || !only_stage.empty(), where,
                ": holds something already; expected a new or empty run_dir, or --resume to continue this run");
  HYDRA_REQUIRE(fs::exists(directory.config_file()), where,
                ": holds something that is no run (no config.resolved.yaml)");
  HYDRA_REQUIRE(resume || !begun(directory, only_stage), directory.stage(only_stage).string(),
                ": this stage was begun already; --resume continues it");
  require_same_settings(directory, config);
}

}  // namespace hydra::train
