#pragma once
// One checkpoint: <root>/step-NNNNNNNNNN/{model/, optimizer-NNNNN-of-NNNNN.safetensors, state.json, manifest.json}.
// Every rank writes its part of model/ and a file of the optimizer. The directory appears by one rename after
// everything is on disk; the manifest, written last, holds size and SHA-256 of every file. A directory without a
// manifest is no checkpoint.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hydrahead/checkpoint/run_state.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/io/tensor_slices.hpp"

namespace hydra::checkpoint {

// <root>/step-0000000500
std::filesystem::path checkpoint_path(const std::filesystem::path& root, std::int64_t step);

// All ranks call it together. write_model fills this rank's part of the directory it is given (model/). An empty
// `optimizer` is left out: the stage is done. Non-finite moments are an Error. What fails on one rank fails on all, and
// nothing stays.
std::filesystem::path write_checkpoint(const std::filesystem::path& root, const RunState& state,
                                       const std::function<void(const std::filesystem::path&)>& write_model,
                                       const io::TensorSlices& optimizer, dist::Communicator& communicator);

// What is wrong with a checkpoint directory: missing manifest, missing or extra file, size, hash. Empty: it is
// complete.
std::string checkpoint_fault(const std::filesystem::path& dir);

struct Checkpoint {
  std::filesystem::path dir;
  RunState state;
  std::filesystem::path model_dir() const { return dir / "model"; }
  io::SliceReader optimizer() const;
};

// UserError naming the damage unless the checkpoint is complete.
Checkpoint open_checkpoint(const std::filesystem::path& dir);

}  // namespace hydra::checkpoint
