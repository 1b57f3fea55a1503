#pragma once
// The whole tree of a run's config file, made of the structs that each module owns. Every verb with --config reads it;
// a section that a verb does not use may stand in the file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/data_config.hpp"
#include "hydrahead/eval/eval_config.hpp"
#include "hydrahead/model/calibration_config.hpp"
#include "hydrahead/model/generate.hpp"
#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/hybrid_config.hpp"
#include "hydrahead/optim/optim_config.hpp"
#include "hydrahead/select/select_config.hpp"
#include "hydrahead/train/stage_config.hpp"

namespace hydra::train {

enum class DeviceChoice { automatic, cpu, cuda };
enum class Precision { automatic, fp32, bf16 };
using optim::Shard;

// data * context is the number of ranks.
struct ParallelConfig {
  std::int64_t data = 1, context = 1;
  Shard shard = Shard::none;
  std::int64_t timeout = 300;  // seconds
};
void describe(config::Binder& binder, ParallelConfig& value);

struct CheckpointConfig {
  std::int64_t every = 500;  // steps
  std::int64_t keep = 2;
  std::string signal;  // a further signal that saves and stops, for example USR1; empty: none
};
void describe(config::Binder& binder, CheckpointConfig& value);

struct CacheConfig {
  model::StateType state_dtype = model::StateType::fp32;
};
void describe(config::Binder& binder, CacheConfig& value);

struct LogConfig {
  std::int64_t every = 10;  // steps
  bool tensorboard = true;
};
void describe(config::Binder& binder, LogConfig& value);

struct RunConfig {
  std::filesystem::path teacher;  // a verb that needs it refuses when it is empty
  std::filesystem::path run_dir;
  std::int64_t seed = 0;
  DeviceChoice device = DeviceChoice::automatic;
  Precision precision = Precision::automatic;
  bool deterministic = false;
  model::HeadsConfig heads;
  model::HybridConfig hybrid;
  model::CalibrationConfig calibration;
  data::DataConfig data;
  select::SelectConfig select;
  ParallelConfig parallel;
  optim::OptimizerConfig optimizer;
  StagesConfig stages;
  CheckpointConfig checkpoint;
  eval::EvalConfig eval;
  CacheConfig cache;
  LogConfig log;
};
void describe(config::Binder& binder, RunConfig& value);

// An empty `file` gives the defaults; overrides are "a.b.c=value".
RunConfig read_run_config(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

// Every key with its value; reading it gives the same tree. Paths are absolute.
std::string resolved_yaml(const RunConfig& config);

// docs/config.md.
std::string config_documentation();

}  // namespace hydra::train
