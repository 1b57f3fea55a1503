#pragma once
// What `eval niah` and `eval ppl` have in common on the command line: model, output, config, device, and the ranks.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/io/hf_model_dir.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/run_config.hpp"

namespace hydra::tools {

struct EvalOptions {
  std::string model, out, config, device, precision;
  std::vector<std::string> overrides;
};

// Adds the options to a subcommand; the struct must outlive the parse.
void add_eval_options(CLI::App& verb, EvalOptions& options);

// An option that stands for the config key eval.<key>: it takes the same typed way as --set. Lists are written a,b,c.
void add_key_option(CLI::App& verb, EvalOptions& options, const std::string& flag, const std::string& key, bool list,
                    const std::string& help);

// The model directory, opened and checked, and how it will be loaded on this rank.
struct EvalTarget {
  train::RunConfig config;
  std::unique_ptr<dist::Communicator> communicator;
  io::HfModelDir dir;
  model::ModelConfig model_config;
  model::LoadOptions load;
  Json identity;  // model_sha256, precision, state_dtype: what changes answers
  Json run_info;  // versions and device
};
EvalTarget open_eval_target(const EvalOptions& options);

void add_eval_niah(CLI::App& eval);
void add_eval_ppl(CLI::App& eval);

}  // namespace hydra::tools
