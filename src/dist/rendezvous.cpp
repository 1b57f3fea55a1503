#include "rendezvous.hpp"

#include <c10/util/Flags.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hydrahead/base/error.hpp"

C10_DECLARE_int(caffe2_log_level);

namespace hydra::dist {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> keys_of_ranks(const std::string& name, int ranks) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    keys.push_back(name + "/" + std::to_string(rank));
  }
  return keys;
}

}  // namespace

Store open_store(const LaunchEnv& env, int timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(env.master_port);
  options.isServer = env.rank == 0 && !env.agent_store;
  options.waitWorkers = false;  // join() waits, and knows who is missing
  options.timeout = std::chrono::seconds(timeout_seconds);
  FLAGS_caffe2_log_level = 2;  // errors: a store that goes away is reported by us, not by a stack trace
  try {
    return c10::make_intrusive<c10d::PrefixStore>(env.store_prefix,
                                                  c10::make_intrusive<c10d::TCPStore>(env.master_address, options));
  } catch (const std::exception& error) {
    fail_request("rank ", env.rank, ": the meeting point of rank 0 at ", env.master_address, " port ", env.master_port,
                 options.isServer ? " cannot be opened: " : " cannot be reached: ", first_line(error.what()));
  }
}

void join(c10d::Store& store, const LaunchEnv& env, const std::string& device, int timeout_seconds) {
  const std::vector<std::string> keys = keys_of_ranks("device", env.world_size);
  store.set(keys[static_cast<std::size_t>(env.rank)], device);
  try {
    store.wait(keys, std::chrono::seconds(timeout_seconds));
  } catch (const std::exception&) {
    std::string missing;
    for (int rank = 0; rank < env.world_size; ++rank) {
      if (!store.check({keys[static_cast<std::size_t>(rank)]})) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
    fail_request("rank ", env.rank, " waited ", timeout_seconds, " s at ", env.master_address, " port ",
                 env.master_port, " for ", env.world_size, " ranks; missing: ", missing);
  }
  const std::vector<std::vector<std::uint8_t>> devices = store.multiGet(keys);
  // Rank 0 serves the store: it goes on, or gives up, when all have read.
  const std::vector<std::string> read = keys_of_ranks("read", env.world_size);
  store.set(read[static_cast<std::size_t>(env.rank)], "");
  if (env.rank == 0) {
    store.wait(read, std::chrono::seconds(timeout_seconds));
  }
  for (int rank = 0; rank < env.world_size && !device.empty(); ++rank) {
    const std::vector<std::uint8_t>& other = devices[static_cast<std::size_t>(rank)];
    HYDRA_REQUIRE(rank == env.rank || std::string(other.begin(), other.end()) != device, "ranks ", env.rank, " and ",
                  rank, " both have the device ", device, ", expected one device a rank");
  }
}

}  // namespace hydra::dist
