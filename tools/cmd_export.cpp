// hydrahead export: a checkpoint as a complete Hugging Face style directory, in another storage type or shard size.

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

// "500MB", "5GB", "2GiB" or a whole number of bytes.
std::uint64_t parse_size(const std::string& text) {
  constexpr std::pair<const char*, double> units[] = {
      {"", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  for (const auto& [name, factor] : units) {
    if (used > 0 && text.substr(used) == name && number * factor >= 1 && number * factor < 1e18 &&
        (factor > 1 || number == std::floor(number))) {
      return static_cast<std::uint64_t>(number * factor);
    }
  }
  fail_request("--max-shard-size: found '", text, "', expected bytes, or a number with KB, MB, GB, KiB, MiB or GiB");
}

}  // namespace

void add_export(CLI::App& app, int&) {
  struct Options {
    std::string model, out, dtype, shard_size = "5GB";
  };
  auto* verb = app.add_subcommand("export", "Write a checkpoint as a complete Hugging Face style directory");
  const auto options = std::make_shared<Options>();
  verb->add_option("--model", options->model, "Model directory")->required();
  verb->add_option("--out", options->out, "New directory")->required();
  verb->add_option("--dtype", options->dtype, "bfloat16, float16 or float32; as the source if left out")
      ->check(one_of({"bfloat16", "float16", "float32"}));
  verb->add_option("--max-shard-size", options->shard_size, "Largest weight file, for example 500MB or 5GB")
      ->capture_default_str();
  verb->callback([options] {
    const std::filesystem::path source = options->model;
    const std::uint64_t shard_bytes = parse_size(options->shard_size);
    model::Model model = model::load_model(source, {});
    model::save_model(
        model, options->out,
        {.dtype = options->dtype, .max_shard_bytes = shard_bytes, .tokenizer_source = source, .extra_files = {}});
    std::cout << "exported to " << options->out << "\n";
  });
}

}  // namespace hydra::tools
