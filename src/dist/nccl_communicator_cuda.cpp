// NCCL over c10d: a TCPStore where the ranks meet, then ProcessGroupNCCL. Collectives are queued behind the current
// CUDA stream and the current stream waits for them; the CPU does not. CPU tensors travel through the device.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <unistd.h>

#include <array>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hydrahead/base/error.hpp"
#include "nccl_communicator.hpp"

#ifndef USE_C10D_NCCL
#error "ProcessGroupNCCL.hpp is empty without USE_C10D_NCCL (cmake/dependencies.cmake)"
#endif

namespace hydra::dist {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Rank 0 serves the store, unless torchrun's agent does already.
Store open_store(const LaunchEnv& env, int timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(env.master_port);
  options.isServer = env.rank == 0 && !env.agent_store;
  options.waitWorkers = false;  // join() waits, and knows who is missing
  options.timeout = std::chrono::seconds(timeout_seconds);
  try {
    return c10::make_intrusive<c10d::PrefixStore>(env.store_prefix,
                                                  c10::make_intrusive<c10d::TCPStore>(env.master_address, options));
  } catch (const std::exception& error) {
    fail_request("rank ", env.rank, ": the meeting point of rank 0 at ", env.master_address, " port ", env.master_port,
                 options.isServer ? " cannot be opened: " : " cannot be reached: ", first_line(error.what()));
  }
}

// Host and PCI address: what two ranks must not share.
std::string device_identity(int device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 64> bus{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device));
  // MIG slices of one card share its address.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string slices = visible != nullptr && std::string(visible).starts_with("MIG-") ? visible : "";
  return std::string(host.data()) + " " + bus.data() + (slices.empty() ? "" : " " + slices);
}

// Every rank says which device it has and waits for all others.
void join(c10d::Store& store, const LaunchEnv& env, int device, int timeout_seconds) {
  const auto key = [](int rank) { return "device/" + std::to_string(rank); };
  const std::string mine = device_identity(device);
  store.set(key(env.rank), mine);
  std::vector<std::string> keys;
  for (int rank = 0; rank < env.world_size; ++rank) {
    keys.push_back(key(rank));
  }
  try {
    store.wait(keys, std::chrono::seconds(timeout_seconds));
  } catch (const std::exception&) {
    std::string missing;
    for (int rank = 0; rank < env.world_size; ++rank) {
      if (!store.check({key(rank)})) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
    fail_request("rank ", env.rank, " waited ", timeout_seconds, " s at ", env.master_address, " port ",
                 env.master_port, " for ", env.world_size, " ranks; missing: ", missing);
  }
  const std::vector<std::vector<std::uint8_t>> devices = store.multiGet(keys);
  // Rank 0 serves the store: it goes on, or gives up, when all have read.
  const auto read_key = [](int rank) { return "read/" + std::to_string(rank); };
  store.set(read_key(env.rank), "");
  if (env.rank == 0) {
    for (int rank = 0; rank < env.world_size; ++rank) {
      keys[static_cast<std::size_t>(rank)] = read_key(rank);
    }
    store.wait(keys, std::chrono::seconds(timeout_seconds));
  }
  for (int rank = 0; rank < env.world_size; ++rank) {
    const std::vector<std::uint8_t>& other = devices[static_cast<std::size_t>(rank)];
    HYDRA_REQUIRE(rank == env.rank || std::string(other.begin(), other.end()) != mine, "ranks ", env.rank, " and ",
                  rank, " both have the device ", mine, ", expected one device a rank");
  }
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Store& store, const LaunchEnv& env, c10::DeviceIndex device, int timeout_seconds)
      : rank_(env.rank), size_(env.world_size), device_(at::kCUDA, device) {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = std::chrono::seconds(timeout_seconds);
    options->group_name = "hydrahead";
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank_, size_, std::move(options));
    barrier();  // NCCL connects here, so that a broken network fails at the start
  }
  ~NcclCommunicator() override {
    try {
      group_->shutdown();
    } catch (const std::exception&) {
      // The process ends with the error that brought it here.
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce_sum(at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {on_device(tensor)};
    wait(group_->allreduce(tensors));
    copy_back(tensor, tensors[0]);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {on_device(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    wait(group_->broadcast(tensors, options));
    copy_back(tensor, tensors[0]);
  }
  void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) override {
    HYDRA_CHECK(static_cast<int>(outputs.size()) == size_, "found ", outputs.size(), " outputs for ", size_, " ranks");
    std::vector<at::Tensor> inputs = {on_device(input)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (const at::Tensor& output : outputs) {
      all[0].push_back(on_device(output));
    }
    wait(group_->allgather(all, inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      copy_back(outputs[i], all[0][i]);
    }
  }
  void reduce_scatter_sum(at::Tensor& output, const std::vector<at::Tensor>& inputs) override {
    HYDRA_CHECK(static_cast<int>(inputs.size()) == size_, "found ", inputs.size(), " inputs for ", size_, " ranks");
    std::vector<at::Tensor> outputs = {on_device(output)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (const at::Tensor& input : inputs) {
      all[0].push_back(on_device(input));
    }
    wait(group_->reduce_scatter(outputs, all));
    copy_back(output, outputs[0]);
  }
  void barrier() override {
    at::Tensor token = at::zeros({1}, at::TensorOptions().device(device_));
    all_reduce_sum(token);
    at::cuda::getCurrentCUDAStream(device_.index()).synchronize();
  }

 private:
  at::Tensor on_device(const at::Tensor& tensor) const { return tensor.to(device_).contiguous(); }
  static void copy_back(at::Tensor& target, const at::Tensor& result) {
    if (!target.is_same(result)) {
      const at::NoGradGuard no_grad;
      target.copy_(result);
    }
  }
  static void wait(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }

  const int rank_, size_;
  const at::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const LaunchEnv& env, int timeout_seconds) {
  const auto device = static_cast<c10::DeviceIndex>(device_index(env));
  c10::cuda::set_device(device);
  const Store store = open_store(env, timeout_seconds);
  join(*store, env, device, timeout_seconds);
  return std::make_unique<NcclCommunicator>(store, env, device, timeout_seconds);
}

}  // namespace hydra::dist
