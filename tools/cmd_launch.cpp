// hydrahead launch -n N -- VERB ...: the same verb in N local ranks, each with one GPU.

#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/dist/local_launch.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hydra::tools {

void add_launch(CLI::App& app, int& exit_status) {
  CLI::App* verb =
      app.add_subcommand("launch", "start N local ranks of another verb: launch -n 8 -- train --config FILE");
  struct Options {
    dist::LocalLaunch launch;
    std::vector<std::string> command;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("-n,--ranks", options->launch.ranks, "number of ranks")->required()->check(integer_from(1, 1024));
  verb->add_option("--port", options->launch.port, "port of rank 0's meeting point (default: a free one)")
      ->check(integer_from(1, 65535));
  verb->add_option("command", options->command, "the verb and its options, after --")->required();
  verb->callback([options, &exit_status] {
    options->launch.command = options->command;
    options->launch.command.insert(options->launch.command.begin(), std::filesystem::read_symlink("/proc/self/exe"));
    exit_status = dist::run_local_ranks(options->launch);
  });
}

}  // namespace hydra::tools
