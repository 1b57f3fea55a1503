#include "hydrahead/dist/launch_env.hpp"

#include <charconv>
#include <cstdlib>

#include "hydrahead/base/error.hpp"

namespace hydra::dist {
namespace {

int number(const Lookup& lookup, const std::string& name, int low, int high) {
  const auto text = lookup(name);
  HYDRA_REQUIRE(text, "environment variable ", name, " is not set, expected a number from ", low, " to ", high);
  int value = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  HYDRA_REQUIRE(status == std::errc() && end == text->data() + text->size() && value >= low && value <= high,
                "environment variable ", name, ": found \"", *text, "\", expected a number from ", low, " to ", high);
  return value;
}

struct Names {
  const char *launcher, *rank, *local_rank, *world_size;
};
constexpr Names launchers[] = {
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
};

}  // namespace

LaunchEnv read_launch_env(const Lookup& lookup) {
  LaunchEnv env;
  for (const Names& names : launchers) {
    if (!lookup(names.rank) && !lookup(names.world_size)) {
      continue;
    }
    env.launcher = names.launcher;
    env.world_size = number(lookup, names.world_size, 1, 1 << 20);
    env.rank = number(lookup, names.rank, 0, env.world_size - 1);
    env.local_rank = number(lookup, names.local_rank, 0, env.world_size - 1);
    break;
  }
  if (env.world_size > 1) {
    const auto address = lookup("MASTER_ADDR");
    HYDRA_REQUIRE(address && !address->empty(),
                  "environment variable MASTER_ADDR is not set, expected the host of rank 0 (", env.launcher,
                  " started ", env.world_size, " ranks)");
    env.master_address = *address;
    env.master_port = number(lookup, "MASTER_PORT", 1, 65535);
    env.agent_store = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    env.store_prefix = "hydrahead/" + lookup("TORCHELASTIC_RESTART_COUNT").value_or("0");
  }
  return env;
}

LaunchEnv read_launch_env() {
  return read_launch_env([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace hydra::dist
