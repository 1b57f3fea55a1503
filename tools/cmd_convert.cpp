// hydrahead convert: teacher + head plan -> hybrid checkpoint, initialised, not trained.

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "hydrahead/base/log.hpp"
#include "hydrahead/train/conversion.hpp"
#include "verbs.hpp"

namespace hydra::tools {

void add_convert(CLI::App& app, int&) {
  struct Options {
    std::string model, out, config, calibration_ids;
    std::vector<std::string> overrides;
  };
  auto* verb = app.add_subcommand("convert", "Turn a teacher and a head plan into an initialised hybrid checkpoint");
  const auto options = std::make_shared<Options>();
  verb->add_option("--model", options->model, "Teacher directory")->required();
  verb->add_option("--out", options->out, "New directory for the hybrid")->required();
  verb->add_option("--config", options->config, "YAML file with heads, hybrid, calibration, data");
  verb->add_option("--set", options->overrides, "key=value, over the file");
  verb->add_option("--calibration-ids", options->calibration_ids,
                   "Calibrate on these token ids: a JSON array a line, or a .safetensors file with input_ids [B, T]");
  verb->callback([options] {
    train::RunConfig config = train::read_run_config(options->config, options->overrides);
    config.teacher = options->model;
    train::run_conversion(config, options->out, options->calibration_ids);
    std::cout << "hybrid checkpoint: " << options->out << "\n";
  });
}

}  // namespace hydra::tools
