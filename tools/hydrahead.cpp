// The command line: one subcommand a verb. Turns exceptions into exit statuses: 0 done, 1 failed while working, 2 the
// request is wrong, 75 stopped by a signal after saving.

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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

// "hydrahead eval niah": the innermost verb that the arguments name.
std::string name_with_verbs(const CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return verbs.empty() ? app.get_name() : app.get_name() + " " + name_with_verbs(*verbs.front());
}

// What an operating system refuses because of the path that it was given.
bool wrong_path(const std::error_code& code) {
  for (const std::errc error : {std::errc::not_a_directory, std::errc::is_a_directory, std::errc::permission_denied,
                                std::errc::read_only_file_system, std::errc::no_such_file_or_directory,
                                std::errc::filename_too_long, std::errc::file_exists, std::errc::directory_not_empty}) {
    if (code == error) {
      return true;
    }
  }
  return false;
}

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
    if (error.get_exit_code() == 0) {
      return app.exit(error);  // prints the help or version
    }
    const std::string verb = name_with_verbs(app);
    hydra::log_error(error.what(), "; see `", verb, " --help`");
    return wrong_request;
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
  } catch (const std::filesystem::filesystem_error& error) {
    hydra::log_error(error.path1().string(), ": ", error.code().message());
    return wrong_path(error.code()) ? wrong_request : failed;
  } catch (const std::exception& error) {
    hydra::log_error(error.what());
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hydra::tools;
  hydra::install_stop_signals();  // first: a signal that comes before is a kill
  CLI::App app{"hydrahead: turns a Qwen3 checkpoint into a long-context hybrid of full and linear attention heads",
               "hydrahead"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  int exit_status = done;
  for (const auto add : {add_inspect, add_verify, add_tokenize, add_select, add_convert, add_train, add_eval,
                         add_generate, add_export, add_bench, add_launch}) {
    add(app, exit_status);
  }
  app.add_subcommand("document-config", "print docs/config.md")->group("")->callback([] {
    std::cout << hydra::train::config_documentation();
  });
  hydra::dist::follow_launcher();
  return run(app, argc, argv, exit_status);
}
