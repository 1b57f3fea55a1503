// hydrahead eval niah: RULER's eight needle tasks on a model directory.

#include <iostream>
#include <memory>

#include "eval_options.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/eval/evaluate.hpp"
#include "hydrahead/eval/niah_run.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "option_checks.hpp"

namespace hydra::tools {
namespace {

struct Options {
  EvalOptions common;
  std::int64_t batch_tokens = 0;  // 0: by the device and the model
  eval::NiahRunOptions run;
};

void run(const Options& options) {
  EvalTarget target = open_eval_target(options.common);
  const eval::NiahConfig config = target.config.eval.niah.value_or(eval::NiahConfig{});
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.common.model);
  const data::Corpora corpora = data::load_corpora(config.haystack.string(), config.words.string());
  eval::NiahRunOptions run_options = options.run;
  run_options.out = options.common.out;
  const model::CacheBytes cache =
      eval::cache_use(target.model_config, target.load.compute_type, target.config.cache.state_dtype);
  run_options.batch_tokens =
      options.batch_tokens > 0 ? options.batch_tokens : eval::default_batch_tokens(target.load.device, cache);
  run_options.run_info = target.run_info;
  eval::NiahSubject subject{.name = std::filesystem::path(options.common.model).lexically_normal().string(),
                            .identity = target.identity,
                            .stop_ids = target.model_config.base.stop_ids,
                            .trained_context = target.model_config.base.max_position};
  eval::NiahRun niah(config, corpora, tokenizer, std::move(subject), std::move(run_options), *target.communicator);
  std::optional<model::Model> model;
  eval::Generate decode;
  const eval::NiahSummary summary = niah.run([&](const auto& prompts, const auto& budgets) {
    if (!model) {  // only when there is something left to compute
      model = model::load_model(target.dir, target.load);
      decode = eval::model_generator(*model, target.config.cache.state_dtype);
    }
    return decode(prompts, budgets);
  });
  if (target.communicator->rank() == 0) {
    std::cout << eval::niah_table(summary) << "\n"
              << "report: " << options.common.out
              << "/report.html, summary.md, summary.json, summary.csv; samples: " << options.common.out
              << "/samples.jsonl\n";
  }
}

}  // namespace

void add_eval_niah(CLI::App& eval) {
  auto* verb = eval.add_subcommand("niah", "RULER's eight needle tasks; continues in a directory that holds a part");
  const auto options = std::make_shared<Options>();
  EvalOptions& common = options->common;
  add_eval_options(*verb, common);
  add_key_option(*verb, common, "--tasks", "niah.tasks", true, "niah_single_1,niah_multikey_1,...");
  add_key_option(*verb, common, "--lengths", "niah.lengths", true, "512,1024,...: prompt and answer together");
  add_key_option(*verb, common, "--samples", "niah.samples", true, "A number, or one a length: 100 or 100,50,20");
  add_key_option(*verb, common, "--prompt", "niah.prompt", false, "base | chat | chat-thinking");
  add_key_option(*verb, common, "--chat-wrapper", "niah.chat_wrapper", false,
                 "File with {task}: the chat form of another model");
  verb->add_flag_callback(
      "--no-answer-prefix", [&common] { common.overrides.emplace_back("eval.niah.answer_prefix=false"); },
      "Do not start the answer as RULER does");
  add_key_option(*verb, common, "--max-new", "niah.max_new", false, "auto | ruler | N: answer budget in tokens");
  add_key_option(*verb, common, "--seed", "niah.seed", false, "Of the samples");
  add_key_option(*verb, common, "--depths", "niah.depths", true, "0,25,50,...: a grid of needle depths in percent");
  add_key_option(*verb, common, "--haystack", "niah.haystack", false, "Essay text: .txt, or .json with \"text\"");
  add_key_option(*verb, common, "--words", "niah.words", false, "Folder with adjectivelist.txt and nounlist.txt");
  verb->add_option("--batch-tokens", options->batch_tokens, "Prompt tokens decoded together")->check(integer_from(1));
  verb->add_option("--threshold", options->run.threshold, "Of the effective length")->check(number_from(0, 100));
  verb->add_flag("--skip-unfit", options->run.skip_unfit, "Leave out tasks that do not fit a length");
  verb->add_flag("--force", options->run.force, "Go on above 32K though the first samples scored 0");
  verb->add_flag("--save-inputs", options->run.save_inputs, "Write each prompt into samples.jsonl");
  verb->callback([options] { run(*options); });
}

}  // namespace hydra::tools
