#pragma once
// The whole conversion of a run: teacher directory -> head plan -> calibration tokens -> hybrid directory. `convert`
// and `train` both call it.

#include <filesystem>
#include <string>

#include "hydrahead/model/convert.hpp"
#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

// The plan that `heads` asks for: its file, or its rule.
model::HeadPlan choose_plan(const model::HeadsConfig& heads, const io::HfModelDir& teacher,
                            const model::Qwen3Config& config, std::int64_t seed);

// Token ids from a file: a JSON array of ids a line (as `tokenize --ids` prints), or a .safetensors file whose tensor
// input_ids [B, T] holds one sequence a row.
model::CalibrationTokens read_calibration_ids(const std::filesystem::path& file);

// Writes a complete hybrid directory (with heads.yaml and conversion.json: new parameters, their initial values,
// calibration) and logs the list of new parameters. `calibration_ids` empty: text of config.data.sources, packing
// reset. UserError: the teacher is a hybrid already, `out` holds something, no calibration text.
void run_conversion(const RunConfig& config, const std::filesystem::path& out,
                    const std::filesystem::path& calibration_ids = {});

}  // namespace hydra::train
