#include "hydrahead/data/data_config.hpp"

namespace hydra::data {

void describe(config::Binder& binder, SourceConfig& value) {
  binder.path(
      "path", value.path,
      {"PREFIX of a .bin/.idx pair, a text or JSONL file (also .xz, .zst, .gz), or a directory of them; text is "
       "tokenized into the cache."});
  binder.field("text_key", value.text_key, {"Key of the text in JSONL rows."});
  binder.choice("synthetic", value.synthetic, {{Synthetic::none, "none"}, {Synthetic::retrieval, "retrieval"}},
                {"A built-in generator in place of `path`."});
  binder.field("weight", value.weight,
               {.text = "Share of the tokens, relative to the other sources.", .min = 0, .max = 1e6});
  binder.require(value.path.empty() == (value.synthetic != Synthetic::none), "path",
                 "expected either `path` or `synthetic`");
  binder.no_effect("text_key", value.synthetic != Synthetic::none, "the source is synthetic");
}

void describe(config::Binder& binder, ValidationConfig& value) {
  binder.path("path", value.path, {"Held-out text, in any form that a source may have. Empty: no validation."});
  binder.field("text_key", value.text_key, {"Key of the text in JSONL rows."});
  binder.token_count("tokens", value.tokens, {.text = "Read from the start of the text.", .unit = "tokens", .min = 1});
  binder.field("every", value.every,
               {.text = "Between validations in training; also after the last step.", .unit = "steps", .min = 1});
  for (const char* key : {"text_key", "tokens", "every"}) {
    binder.no_effect(key, value.path.empty(), "no validation path is given");
  }
}

void describe(config::Binder& binder, DataConfig& value) {
  binder.choice("packing", value.packing, {{Packing::reset, "reset"}, {Packing::eos_join, "eos_join"}},
                {"reset: attention, states and positions restart at every document; eos_join: documents are joined by "
                 "EOS, cut, and treated as one text."});
  binder.named_sections("sources", value.sources, "Training text by name (method.md section 8).");
  binder.section("validation", value.validation, "Held-out text.");
}

void describe_tasks(config::Binder& binder, std::string_view key, std::vector<NiahTask>& value,
                    std::span<const NiahTask> from, const config::Doc& doc) {
  std::vector<config::EnumName<NiahTask>> names;
  for (const NiahTask task : from) {
    names.push_back({task, task_name(task)});
  }
  binder.choices(key, value, names, doc);
}

}  // namespace hydra::data
