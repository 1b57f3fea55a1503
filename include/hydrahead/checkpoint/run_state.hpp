#pragma once
// Where a run stands, besides weights and moments: state.json of a checkpoint. The schedule and the data are pure
// functions of step and row index, so this is all that an exact resume needs, whatever the number of ranks.

#include <cstdint>
#include <string>

#include "hydrahead/base/json.hpp"

namespace hydra::checkpoint {

struct RunState {
  std::string stage;
  std::int64_t step = 0;         // updates done in this stage
  std::int64_t total_steps = 0;  // of this stage
  std::int64_t run_step = 0;     // updates done in all stages
  std::int64_t stage_tokens = 0, run_tokens = 0;
  std::int64_t next_row = 0;  // data cursor: index of the next step's first row in the stage's row source
  std::int64_t seed = 0;
  std::int64_t skipped_steps = 0;  // consecutive steps with non-finite gradients so far
  std::string config_sha256;       // of the settings that decide the stage's numbers
  Json trained, frozen;            // lists of {name, shape}

  bool stage_done() const { return step >= total_steps; }
};

Json write_run_state(const RunState& state);
// UserError naming `where` and the key for a missing or mistyped one.
RunState read_run_state(const Json& json, const std::string& where);

}  // namespace hydra::checkpoint
