#pragma once
// Work that is kept until the end, so that what a signal stopped goes on with the same command: a directory with the
// settings that decide its content.

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/dist/communicator.hpp"

namespace hydra::select {

inline fs::path work_settings(const fs::path& dir) { return dir / "settings.json"; }

// Makes `dir`, or goes on in it. UserError: it holds work of other settings (each differing key is named).
void open_work_directory(const fs::path& dir, const Json& settings, dist::Communicator& communicator);

}  // namespace hydra::select
