#include "hydrahead/checkpoint/run_state.hpp"

#include "hydrahead/base/error.hpp"

namespace hydra::checkpoint {
namespace {

const Json& member(const Json& json, const char* key, const std::string& where) {
  const auto entry = json.find(key);
  HYDRA_REQUIRE(entry != json.end(), where, ": key ", key, " is missing");
  return *entry;
}

void read(const Json& json, const char* key, const std::string& where, std::int64_t& value) {
  const Json& found = member(json, key, where);
  HYDRA_REQUIRE(found.is_number_integer(), where, ": ", key, " is ", found.dump(), ", expected an integer");
  value = found.get<std::int64_t>();
}

void read(const Json& json, const char* key, const std::string& where, std::string& value) {
  const Json& found = member(json, key, where);
  HYDRA_REQUIRE(found.is_string(), where, ": ", key, " is ", found.dump(), ", expected a string");
  value = found.get<std::string>();
}

}  // namespace

Json write_run_state(const RunState& state) {
  return {{"version", 1},
          {"stage", state.stage},
          {"step", state.step},
          {"total_steps", state.total_steps},
          {"run_step", state.run_step},
          {"stage_tokens", state.stage_tokens},
          {"run_tokens", state.run_tokens},
          {"next_row", state.next_row},
          {"seed", state.seed},
          {"skipped_steps", state.skipped_steps},
          {"config_sha256", state.config_sha256},
          {"trained", state.trained},
          {"frozen", state.frozen}};
}

RunState read_run_state(const Json& json, const std::string& where) {
  HYDRA_REQUIRE(json.is_object(), where, ": found no JSON object");
  std::int64_t version = 0;
  read(json, "version", where, version);
  HYDRA_REQUIRE(version == 1, where, ": version is ", version, ", expected 1");
  RunState state;
  read(json, "stage", where, state.stage);
  read(json, "step", where, state.step);
  read(json, "total_steps", where, state.total_steps);
  read(json, "run_step", where, state.run_step);
  read(json, "stage_tokens", where, state.stage_tokens);
  read(json, "run_tokens", where, state.run_tokens);
  read(json, "next_row", where, state.next_row);
  read(json, "seed", where, state.seed);
  read(json, "skipped_steps", where, state.skipped_steps);
  read(json, "config_sha256", where, state.config_sha256);
  state.trained = member(json, "trained", where);
  state.frozen = member(json, "frozen", where);
  return state;
}

}  // namespace hydra::checkpoint
