// hydrahead select: which heads of a teacher keep full attention.

#include <ATen/Context.h>

#include <iostream>
#include <memory>

#include "eval_options.hpp"
#include "hydrahead/train/selection.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

void run(EvalOptions options, train::SelectionOptions selection) {
  EvalTarget target = open_eval_target(options);
  if (options.precision.empty() && target.config.precision == train::Precision::automatic) {
    // Effects are small differences of large sums: fp32 activations, products of them in TF32 on a GPU.
    target.load.parameter_type = target.load.compute_type = at::kFloat;
    target.identity["precision"] = target.load.device.is_cuda() ? "fp32, tf32 products" : "fp32";
    at::globalContext().setAllowTF32CuBLAS(true);
  }
  selection.out = options.out;
  selection.model_name = options.model;
  selection.identity = target.identity;
  selection.identity.erase("state_dtype");
  std::cout << train::run_selection(target.config, target.dir, target.load, selection, *target.communicator);
  if (target.communicator->rank() == 0) {
    std::cout << "head plan: " << options.out << "/heads.yaml; scores: " << options.out
              << "/scores.json, scores.md, report.html\n";
  }
}

}  // namespace

void add_select(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("select", "Score a teacher's heads by causal intervention and write a head plan");
  const auto options = std::make_shared<EvalOptions>();
  const auto selection = std::make_shared<train::SelectionOptions>();
  add_eval_options(*verb, *options);
  verb->add_option("--scores", selection->scores, "scores.json of an earlier selection: plan from it, score nothing");
  verb->add_flag("--knockout", selection->knockout, "Also check the ranking: retrieval against heads removed");
  verb->add_flag("--analyse", selection->analyse, "Also write what heads and layers do: similarity, distance, entropy");
  verb->callback([options, selection] { run(*options, *selection); });
}

}  // namespace hydra::tools
