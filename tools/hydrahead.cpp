// The command line: one subcommand a verb. Turns exceptions into exit statuses: 0 done, 1 failed while working, 2 the
// request is wrong, 75 stopped by a signal after saving.

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/dist/local_launch.hpp"
#include "hydrahead/train/run_config.hpp"
#include "verbs.hpp"
#include "version.hpp"

namespace {

enum ExitStatus { done = 0, failed = 1, wrong_request = 2, stopped = 75 };

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Runs the verb that `argv` names; its exceptions become log lines and a status.
int run(CLI::App& app, int argc, char** argv, int& exit_status) {
  const auto is_named = [&](const CLI::App* verb) { return verb->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && std::as_const(app).get_subcommands(is_named).empty()) {
    hydra::log_error("found \"", argv[1], "\" as the verb; `hydrahead --help` lists them");
    return wrong_request;
  }
  try {
    app.parse(argc, argv);
    return exit_status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? done : wrong_request;  // prints help, or the error
  } catch (const hydra::UserError& error) {
    hydra::log_error(error.what());
    return wrong_request;
  } catch (const hydra::Interrupted& error) {
    hydra::log_warning(error.what());
    return stopped;
  } catch (const c10::OutOfMemoryError& error) {
    hydra::log_error("out of GPU memory: ", first_line(error.what_without_backtrace()),
                     " Smaller values of stages.*.micro_batch, stages.*.loss_chunk or stages.*.context need less.");
  } catch (const c10::Error& error) {
    hydra::log_error(first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    hydra::log_error(error.what());
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hydra::tools;
  CLI::App app{"hydrahead: turns a Qwen3 checkpoint into a long-context hybrid of full and linear attention heads"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  int exit_status = done;
  for (const auto add : {add_inspect, add_verify, add_tokenize, add_convert, add_train, add_eval, add_generate,
                         add_export, add_bench, add_launch}) {
    add(app, exit_status);
  }
  app.add_subcommand("document-config", "print docs/config.md")->group("")->callback([] {
    std::cout << hydra::train::config_documentation();
  });
  hydra::dist::follow_launcher();
  hydra::install_stop_signals();
  return run(app, argc, argv, exit_status);
}
