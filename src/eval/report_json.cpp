// report.json: the whole run report for programs.

#include "format.hpp"
#include "report_parts.hpp"

namespace hydra::eval {
namespace {

Json state_json(const StateResult& state, const std::vector<std::int64_t>& lengths) {
  Json json = {{"name", state.name},
               {"parameters", state.parameters},
               {"kv_bytes_per_token", state.cache.kv_per_token},
               {"constant_state_bytes", state.cache.constant},
               {"decode_state_bytes", Json::array()}};
  for (const std::int64_t length : lengths) {
    json["decode_state_bytes"].push_back({{"length", length}, {"bytes", cache_bytes_at(state.cache, length)}});
  }
  json["niah"] = state.niah ? to_json(*state.niah) : Json(nullptr);
  json["perplexity"] = state.ppl ? to_json(*state.ppl) : Json(nullptr);
  return json;
}

Json stage_json(const StageSpeed& speed) {
  const auto known = [](double value) { return value > 0 ? json_number(value) : Json(nullptr); };
  return {{"stage", speed.stage},
          {"context", speed.context},
          {"steps", speed.steps},
          {"tokens", speed.tokens},
          {"seconds", json_number(speed.seconds)},
          {"tokens_per_second", json_number(speed.tokens_per_second)},
          {"teraflops", known(speed.teraflops)},
          {"mfu", known(speed.mfu)},
          {"peak_memory_bytes", speed.peak_memory > 0 ? Json(speed.peak_memory) : Json(nullptr)},
          {"first_loss", json_number(speed.first_loss)},
          {"last_loss", json_number(speed.last_loss)}};
}

}  // namespace

Json report_json(const RunReport& report) {
  Json json = {{"format", "hydrahead run report 1"}, {"title", report.title}, {"facts", Json::object()}};
  for (const auto& [key, value] : report.facts) {
    json["facts"][key] = value;
  }
  json["heads"] = report.heads;
  json["fa_heads"] = report.fa_heads;
  json["states"] = Json::array();
  for (const StateResult& state : report.states) {
    json["states"].push_back(state_json(state, report_lengths(report)));
  }
  json["stages"] = Json::array();
  for (const StageSpeed& speed : report.stages) {
    json["stages"].push_back(stage_json(speed));
  }
  json["config"] = report.config_yaml;
  return json;
}

}  // namespace hydra::eval
