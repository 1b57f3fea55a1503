// hydrahead train: the whole run of a config file, one stage of it, or what it would do.

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "gdn_kernel_option.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "hydrahead/train/training_run.hpp"
#include "verbs.hpp"
#include "version.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides, resume;
  train::TrainOptions train;
  bool dry_run = false;
};

void run(const Options& options) {
  const train::RunConfig config = train::read_run_config(options.config, options.overrides);
  const dist::LaunchEnv env = dist::read_launch_env();
  const at::Device device = train::device_of_rank(config.device, env);
  if (options.dry_run) {  // one process describes a job of any number of ranks
    const int ranks = env.world_size > 1 ? env.world_size : static_cast<int>(config.parallel.data);
    const std::string text = train::describe_run(config, ranks, device);
    if (env.rank == 0) {
      std::cout << text;
    }
    return;
  }
  install_stop_signals(config.checkpoint.signal);
  const auto communicator = dist::make_communicator(env, device, static_cast<int>(config.parallel.timeout));
  const std::string tables = train::run_training(config, options.train, *communicator, device);
  if (env.rank == 0) {
    const std::string run_dir = config.run_dir.string();
    std::cout << tables << "\nreport: " << run_dir << "/report.html, report.md, report.json\n";
  }
}

}  // namespace

void add_train(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("train", "Convert (if not done yet) and train the stages of a config file");
  const auto options = std::make_shared<Options>();
  verb->add_option("--config", options->config, "YAML file of the run")->required();
  verb->add_option("--set", options->overrides, "key=value, over the file")->take_all();
  verb->add_option("--stage", options->train.only_stage, "Run only this stage: align, distill or long_context");
  auto* resume = verb->add_option(
      "--resume", options->resume,
      "Continue the run, from this checkpoint or the newest complete one; starts it where there is none");
  resume->expected(0, 1);
  add_gdn_kernel_option(*verb);
  verb->add_flag("--dry-run", options->dry_run, "Print the resolved config, parameters and memory; touch nothing");
  verb->callback([options, resume] {
    options->train.resume = resume->count() > 0;
    options->train.resume_from = options->resume.empty() ? "" : options->resume.front();
    options->train.versions = version_text();
    run(*options);
  });
}

}  // namespace hydra::tools
