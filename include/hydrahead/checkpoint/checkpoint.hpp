#pragma once
// One checkpoint: <root>/step-NNNNNNNNNN/{model/, optimizer.safetensors, state.json, manifest.json}. The directory
// appears by one rename after everything is on disk; the manifest, written last, holds size and SHA-256 of every file.
// A directory without a manifest is no checkpoint.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hydrahead/checkpoint/run_state.hpp"
#include "hydrahead/io/safetensors.hpp"

namespace hydra::checkpoint {

// <root>/step-0000000500
std::filesystem::path checkpoint_path(const std::filesystem::path& root, std::int64_t step);

// write_model fills the directory it is given (model/). An empty optimizer is left out: the stage is done. Non-finite
// moments are an Error before anything is written.
std::filesystem::path write_checkpoint(const std::filesystem::path& root, const RunState& state,
                                       const std::function<void(const std::filesystem::path&)>& write_model,
                                       const io::NamedTensors& optimizer);

// What is wrong with a checkpoint directory: missing manifest, missing or extra file, size, hash. Empty: it is
// complete.
std::string checkpoint_fault(const std::filesystem::path& dir);

struct Checkpoint {
  std::filesystem::path dir;
  RunState state;
  std::filesystem::path model_dir() const { return dir / "model"; }
  io::NamedTensors optimizer() const;  // CPU
};

// UserError naming the damage unless the checkpoint is complete.
Checkpoint open_checkpoint(const std::filesystem::path& dir);

}  // namespace hydra::checkpoint
