#pragma once
// Which checkpoints of a directory are used, kept and removed, and whether another one fits on the disk.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/checkpoint/checkpoint.hpp"

namespace hydra::checkpoint {

// The step-NNNNNNNNNN directories of `root`, ascending by number, complete or not.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& root);

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;  // the newest complete one
  std::vector<std::string> skipped;      // newer ones: "path: what is wrong"
};
NewestCheckpoint find_newest(const std::filesystem::path& root);

// Before a run goes on from `step`: removes what interrupted saves left (*.tmp), and renames every later checkpoint to
// <name>.set-aside, so that its step can be written again. Says what it did, a line each.
std::vector<std::string> set_aside_after(const std::filesystem::path& root, std::int64_t step);

// Removes all but the newest `keep` complete checkpoints; never one that is newer than the newest complete one.
void prune(const std::filesystem::path& root, std::int64_t keep);

// UserError unless `bytes` can be written below `dir` (its nearest existing parent): free space, then a trial
// allocation, which quotas refuse too. `purpose` stands in the message.
void require_space(const std::filesystem::path& dir, std::uint64_t bytes, const std::string& purpose);

}  // namespace hydra::checkpoint
