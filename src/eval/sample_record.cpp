// One line of samples.jsonl: RULER's fields (index, input, outputs, pred, length, answer_prefix) and ours.

#include "hydrahead/eval/record_store.hpp"

namespace hydra::eval {

Json to_json(const SampleRecord& record) {
  Json json = {{"id", record.id},         {"task", data::task_name(record.task)},
               {"length", record.length}, {"index", record.index},
               {"seed", record.seed},     {"input_sha256", record.input_sha256}};
  if (!record.input.empty()) {
    json["input"] = record.input;
  }
  json.update({{"answer_prefix", record.answer_prefix},
               {"outputs", record.references},
               {"pred_raw", record.pred_raw},
               {"pred", record.pred},
               {"prompt_tokens", record.prompt_tokens},
               {"new_tokens", record.new_tokens},
               {"budget", record.budget},
               {"truncated", record.truncated},
               {"depths", record.depths},
               {"essay_repeats", record.essay_repeats},
               {"recounted", record.recounted},
               {"hits", record.score.hits},
               {"score", record.score.score},
               {"strict", record.score.strict},
               {"precision", record.score.precision},
               {"f1", record.score.f1},
               {"ms", record.ms}});
  if (!record.error.empty()) {
    json["error"] = record.error;
  }
  return json;
}

Expected<SampleRecord> record_from_json(const Json& json) {
  try {
    SampleRecord record;
    record.id = json.at("id");
    const auto task = data::task_of(json.at("task").get<std::string>());
    if (!task) {
      return ParseError{"unknown task " + json.at("task").dump()};
    }
    record.task = *task;
    record.length = json.at("length");
    record.index = json.at("index");
    record.seed = json.at("seed");
    record.input_sha256 = json.at("input_sha256");
    record.input = json.value("input", "");
    record.answer_prefix = json.at("answer_prefix");
    record.references = json.at("outputs");
    record.pred_raw = json.at("pred_raw");
    record.pred = json.at("pred");
    record.prompt_tokens = json.at("prompt_tokens");
    record.new_tokens = json.at("new_tokens");
    record.budget = json.at("budget");
    record.truncated = json.at("truncated");
    record.depths = json.at("depths").get<std::vector<double>>();
    record.essay_repeats = json.at("essay_repeats");
    record.recounted = json.at("recounted");
    record.score.hits = json.at("hits").get<std::vector<bool>>();
    record.score.score = json.at("score");
    record.score.strict = json.at("strict");
    record.score.precision = json.at("precision");
    record.score.f1 = json.at("f1");
    record.ms = json.at("ms");
    record.error = json.value("error", "");
    if (record.score.hits.size() != record.references.size() || record.depths.size() != record.references.size()) {
      return ParseError{"`outputs`, `hits` and `depths` differ in length"};
    }
    return record;
  } catch (const Json::exception& error) {
    return ParseError{error.what()};
  }
}

}  // namespace hydra::eval
