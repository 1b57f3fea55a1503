#include "hydrahead/eval/eval_config.hpp"

#include <algorithm>

#include "hydrahead/data/data_config.hpp"

namespace hydra::eval {

void describe(config::Binder& binder, NiahConfig& value) {
  data::describe_tasks(binder, "tasks", value.tasks, data::all_niah_tasks, {"RULER's needle tasks."});
  binder.field("lengths", value.lengths,
               {.text = "Prompt and answer together.", .unit = "tokens", .min = 64, .max = 1 << 24});
  binder.one_or_list("samples", value.samples,
                     {.text = "A task and length: one number, or one for each length.", .min = 1, .max = 100000});
  binder.require(value.samples.size() == 1 || value.samples.size() == value.lengths.size(), "samples",
                 "expected one number, or as many as `lengths` has");
  binder.choice("prompt", value.prompt,
                {{data::PromptForm::base, "base"},
                 {data::PromptForm::chat, "chat"},
                 {data::PromptForm::chat_thinking, "chat-thinking"}},
                {"Plain text, or the chat template without or with thinking."});
  binder.path(
      "chat_wrapper", value.chat_wrapper,
      {"Another model's chat form: a file with {task} in it once, used byte for byte. Empty: that of `prompt`."});
  binder.field("answer_prefix", value.answer_prefix, {"RULER's start of the answer at the end of the prompt."});
  binder.integer_or_word("max_new", value.max_new, {{0, "auto"}, {-1, "ruler"}},
                         {.text = "New tokens a sample; auto: RULER's number, or less below 1024 tokens.",
                          .unit = "tokens",
                          .min = 1,
                          .max = 1 << 20});
  binder.field("seed", value.seed, {.text = "Of the samples.", .min = 0});
  binder.field("depths", value.depths,
               {.text = "Needle depths; empty: RULER's 40 values.", .unit = "percent", .min = 0, .max = 100});
  binder.path("haystack", value.haystack,
              {"Essay text (.txt, or .json with `text`). Empty: the one that tools/setup fetched."});
  binder.path("words", value.words, {"Folder of word lists. Empty: the built-in ones."});
}

void describe(config::Binder& binder, PplConfig& value) {
  binder.path("path", value.path, {"Text to score, in any form that a source may have. Empty: data.validation.path."});
  binder.token_count("tokens", value.tokens, {.text = "Read from the start of the text.", .unit = "tokens", .min = 2});
  binder.field("context", value.context,
               {.text = "Tokens a row: perplexity is reported by position up to here.",
                .unit = "tokens",
                .min = 2,
                .max = 1 << 24});
}

namespace {

const std::vector<config::EnumName<EvalPoint>> phases = {{EvalPoint::convert, "convert"},
                                                         {EvalPoint::align, "align"},
                                                         {EvalPoint::distill, "distill"},
                                                         {EvalPoint::long_context, "long_context"}};

}  // namespace

std::string phase_name(EvalPoint phase) {
  switch (phase) {
    case EvalPoint::convert: return "converted";
    case EvalPoint::align: return "align";
    case EvalPoint::distill: return "distill";
    case EvalPoint::long_context: return "long_context";
  }
  return "";
}

void describe(config::Binder& binder, BesideConfig& value) {
  binder.path("run", value.run, {"run_dir of a run that evaluated this phase with the same tasks."});
  binder.choice("phase", value.phase, {phases[0], phases[1], phases[2], phases[3]}, {"Which of its states."});
}

void describe(config::Binder& binder, EvalConfig& value) {
  binder.choices("after", value.after, phases, {"Phases after which `train` evaluates."});
  binder.field("teacher", value.teacher, {"Also evaluate the teacher, before the first phase."});
  binder.optional_section("niah", value.niah, "Needle tasks (evaluation.md); `{}` for the defaults.");
  binder.optional_section("ppl", value.ppl, "Perplexity by position; `{}` for the defaults.");
  binder.named_sections("beside", value.beside, "States of other runs in this run's report, by the name shown there.");
}

}  // namespace hydra::eval
