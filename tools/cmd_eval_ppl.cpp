// hydrahead eval ppl: loss by position on held-out text, and the choice of the log scale's constant.

#include <iostream>
#include <memory>

#include "eval_options.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/data/rows.hpp"
#include "hydrahead/eval/perplexity.hpp"
#include "hydrahead/eval/perplexity_run.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "option_checks.hpp"

namespace hydra::tools {
namespace {

struct Options {
  EvalOptions common;
  std::vector<std::string> data;
  std::vector<double> log_scale_a;
  bool no_log_scale = false;
  std::int64_t chunk = 8192;
};

void run(const Options& options) {
  EvalTarget target = open_eval_target(options.common);
  const eval::PplConfig config = target.config.eval.ppl.value_or(eval::PplConfig{});
  std::vector<std::filesystem::path> paths(options.data.begin(), options.data.end());
  if (paths.empty()) {
    paths = {config.path.empty() ? target.config.data.validation.path : config.path};
  }
  HYDRA_REQUIRE(!paths.front().empty(),
                "eval ppl: found no text, expected --data PREFIX|FILE, eval.ppl.path or "
                "data.validation.path");
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.common.model);
  std::vector<data::Row> rows;
  for (const std::filesystem::path& path : paths) {
    data::ValidationConfig held = target.config.data.validation;
    held.path = path;
    held.tokens = config.tokens;
    const std::vector<data::Row> more = data::validation_rows(held, config.context, target.config.data.packing,
                                                              tokenizer, target.model_config.base.vocab_size);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  eval::PplRun ppl{.out = options.common.out,
                   .name = std::filesystem::path(options.common.model).lexically_normal().string(),
                   .identity = target.identity,
                   .context = config.context,
                   .options = {.chunk = options.chunk,
                               .state_type = target.config.cache.state_dtype,
                               .log_scale = !options.no_log_scale},
                   .log_scale_a = options.log_scale_a,
                   .run_info = target.run_info};
  const std::string table = eval::run_perplexity(
      ppl, rows, [&] { return model::load_model(target.dir, target.load); }, *target.communicator);
  if (target.communicator->rank() == 0) {
    std::cout << table << "\nreport: " << options.common.out << "/ppl.md, ppl.json, ppl.svg\n";
  }
}

}  // namespace

void add_eval_ppl(CLI::App& eval) {
  auto* verb = eval.add_subcommand("ppl", "Loss by position on held-out text");
  const auto options = std::make_shared<Options>();
  EvalOptions& common = options->common;
  add_eval_options(*verb, common);
  verb->add_option("--data", options->data,
                   "PREFIX of .bin/.idx, or a text or JSONL file; --tokens are read from each");
  add_key_option(*verb, common, "--tokens", "ppl.tokens", false,
                 "Read from the start of the text, for example 262144 or 1M");
  add_key_option(*verb, common, "--context", "ppl.context", false, "Tokens a row");
  verb->add_option("--log-scale-a", options->log_scale_a,
                   "Measure with each of these constants: 200,300,500,600,900,1000,2000")
      ->delimiter(',')
      ->check(number_from(2, 1e9));
  verb->add_flag("--no-log-scale", options->no_log_scale,
                 "Do not scale the queries of full-attention heads by position");
  verb->add_option("--chunk", options->chunk, "Rows a forward")->check(integer_from(1));
  verb->callback([options] { run(*options); });
}

}  // namespace hydra::tools
