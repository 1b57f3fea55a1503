#pragma once
// One function a verb adds it to the command line; tools/cmd_<verb>.cpp implements it. The callback throws: main turns
// UserError into exit status 2, Interrupted into 75, any other exception into 1; a verb sets another status by
// returning it through `exit_status`.

#include <CLI/CLI.hpp>

namespace hydra::tools {

void add_inspect(CLI::App& app, int& exit_status);
void add_verify(CLI::App& app, int& exit_status);
void add_tokenize(CLI::App& app, int& exit_status);
void add_select(CLI::App& app, int& exit_status);
void add_convert(CLI::App& app, int& exit_status);
void add_train(CLI::App& app, int& exit_status);
void add_eval(CLI::App& app, int& exit_status);
void add_generate(CLI::App& app, int& exit_status);
void add_export(CLI::App& app, int& exit_status);
void add_bench(CLI::App& app, int& exit_status);
void add_launch(CLI::App& app, int& exit_status);

}  // namespace hydra::tools
