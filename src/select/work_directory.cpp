#include "work_directory.hpp"

#include "hydrahead/eval/record_store.hpp"

namespace hydra::select {

void open_work_directory(const fs::path& dir, const Json& settings, dist::Communicator& communicator) {
  const fs::path header = work_settings(dir);
  dist::run_together(communicator, [&] {
    if (fs::exists(header)) {
      eval::require_same_settings(read_json_file(header.string()), settings, header);
    }
  });
  dist::run_together(communicator, [&] {
    if (communicator.rank() == 0 && !fs::exists(header)) {
      fs::create_directories(dir);
      write_file_atomic(header, settings.dump(1) + "\n");
    }
  });
}

}  // namespace hydra::select
