#include "hydrahead/checkpoint/checkpoint.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::checkpoint {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kOptimizerPrefix = "optimizer-";
constexpr const char* kState = "state.json";

// Relative names of all regular files but the manifest, sorted.
std::vector<std::string> files_of(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file() && entry.path() != dir / kManifest) {
      names.push_back(entry.path().lexically_relative(dir).generic_string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The manifest's entries of the files `first`, `first` + `step`, ... of the directory.
Json manifest_entries(const fs::path& dir, int first, int step) {
  const std::vector<std::string> names = files_of(dir);
  Json entries = Json::array();
  for (auto i = static_cast<std::size_t>(first); i < names.size(); i += static_cast<std::size_t>(step)) {
    const fs::path file = dir / names[i];
    entries.push_back({{"path", names[i]}, {"bytes", fs::file_size(file)}, {"sha256", sha256_of_file(file)}});
  }
  return entries;
}

void write_manifest(const fs::path& dir, const std::vector<std::string>& entries_of_ranks) {
  Json files = Json::array();
  for (const std::string& entries : entries_of_ranks) {
    for (const Json& entry : Json::parse(entries)) {
      files.push_back(entry);
    }
  }
  write_file_atomic(dir / kManifest, Json{{"version", 1}, {"files", files}}.dump(1) + "\n");
}

void require_finite(const io::TensorSlices& slices, std::int64_t step) {
  for (const io::TensorSlice& slice : slices) {
    if (!at::isfinite(slice.values).all().item<bool>()) {
      throw Error(detail::concat("step ", step, ": ", slice.name, " is not finite; no checkpoint is written"));
    }
  }
}

std::string optimizer_file(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "%s%05d-of-%05d.safetensors", kOptimizerPrefix, rank + 1, ranks);
  return name;
}

bool is_file_entry(const Json& entry) {
  return entry.is_object() && entry.contains("path") && entry["path"].is_string() && entry.contains("bytes") &&
         entry["bytes"].is_number_unsigned() && entry.contains("sha256") && entry["sha256"].is_string();
}

// `name` as listed in a manifest: what is wrong with it, or "".
std::string file_fault(const fs::path& file, const std::string& name, std::uintmax_t bytes, const std::string& sha256) {
  if (!fs::is_regular_file(file)) {
    return name + " is missing";
  }
  if (fs::file_size(file) != bytes) {
    return detail::concat(name, " has ", fs::file_size(file), " bytes, expected ", bytes);
  }
  if (sha256_of_file(file) != sha256) {
    return name + " does not have the SHA-256 of the manifest";
  }
  return "";
}

}  // namespace

fs::path checkpoint_path(const fs::path& root, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%010lld", static_cast<long long>(step));
  return root / name;
}

fs::path write_checkpoint(const fs::path& root, const RunState& state,
                          const std::function<void(const fs::path&)>& write_model, const io::TensorSlices& optimizer,
                          dist::Communicator& communicator) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const fs::path target = checkpoint_path(root, state.step);
  std::optional<AtomicDirectory> directory;  // rank 0's; the others write into it
  run_together(communicator, [&] {
    if (rank == 0) {
      directory.emplace(target);
      fs::create_directories(directory->path() / "model");
    }
  });
  const fs::path dir = gather_texts(communicator, directory ? directory->path().string() : "").front();
  run_together(communicator, [&] {
    write_model(dir / "model");
    require_finite(optimizer, state.step);
    if (!optimizer.empty()) {
      io::write_slices(dir / optimizer_file(rank, ranks), optimizer);
    }
    if (rank == 0) {
      write_file_atomic(dir / kState, write_run_state(state).dump(1) + "\n");
    }
  });
  std::string entries;
  run_together(communicator, [&] { entries = manifest_entries(dir, rank, ranks).dump(); });
  const std::vector<std::string> all = gather_texts(communicator, entries);
  run_together(communicator, [&] {
    if (rank == 0) {
      write_manifest(dir, all);
      directory->commit();
    }
  });
  return target;
}

std::string checkpoint_fault(const fs::path& dir) {
  if (!fs::is_regular_file(dir / kManifest)) {
    return "no manifest.json: the save was not completed";
  }
  const Expected<Json> manifest = parse_json(read_file(dir / kManifest));
  if (!manifest || !manifest->is_object() || !manifest->contains("files") || !(*manifest)["files"].is_array()) {
    return "manifest.json is damaged";
  }
  std::set<std::string> listed;
  for (const Json& entry : (*manifest)["files"]) {
    if (!is_file_entry(entry)) {
      return "manifest.json is damaged";
    }
    const auto name = entry["path"].get<std::string>();
    listed.insert(name);
    const std::string fault =
        file_fault(dir / name, name, entry["bytes"].get<std::uintmax_t>(), entry["sha256"].get<std::string>());
    if (!fault.empty()) {
      return fault;
    }
  }
  for (const std::string& name : files_of(dir)) {
    if (listed.count(name) == 0) {
      return name + " is not in the manifest";
    }
  }
  return listed.count(kState) > 0 ? "" : "state.json is not in the manifest";
}

Checkpoint open_checkpoint(const fs::path& dir) {
  HYDRA_REQUIRE(fs::is_directory(dir), dir.string(), ": no such checkpoint");
  const std::string fault = checkpoint_fault(dir);
  HYDRA_REQUIRE(fault.empty(), dir.string(), ": no complete checkpoint: ", fault);
  const std::string state_file = (dir / kState).string();
  return {dir, read_run_state(read_json_file(state_file), state_file)};
}

io::SliceReader Checkpoint::optimizer() const {
  std::vector<fs::path> files;
  for (const std::string& name : files_of(dir)) {
    if (name.starts_with(kOptimizerPrefix)) {
      files.push_back(dir / name);
    }
  }
  return io::SliceReader(files);
}

}  // namespace hydra::checkpoint
