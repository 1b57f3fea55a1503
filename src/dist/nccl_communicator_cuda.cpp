// NCCL over c10d: the ranks meet in a TCPStore, then ProcessGroupNCCL. A collective runs on NCCL's own stream behind
// what the current stream held when it was started; its Wait puts the current stream behind it, never the CPU. CPU
// tensors travel through the device. Our watchdog stands in for c10d's, which would abort the process without naming
// a rank.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "nccl_communicator.hpp"
#include "watchdog.hpp"

#ifndef USE_C10D_NCCL
#error "ProcessGroupNCCL.hpp is empty without USE_C10D_NCCL (cmake/dependencies.cmake)"
#endif

namespace hydra::dist {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Event = std::shared_ptr<at::cuda::CUDAEvent>;

// Host and PCI address: what two ranks must not share.
std::string device_identity(const c10::Device& device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 64> bus{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index()));
  // MIG slices of one card share its address.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string slices = visible != nullptr && std::string(visible).starts_with("MIG-") ? visible : "";
  return std::string(host.data()) + " " + bus.data() + (slices.empty() ? "" : " " + slices);
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const Store& store, const LaunchEnv& env, const c10::Device& device, int timeout_seconds)
      : rank_(env.rank),
        size_(env.world_size),
        device_(device),
        watchdog_(std::make_unique<Watchdog>(store->clone(), env, env.rank == 0 && !env.agent_store, timeout_seconds)) {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = std::chrono::hours(24 * 365);  // the deadline is the watchdog's
    options->group_name = "hydrahead";
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank_, size_, std::move(options));
    barrier();  // NCCL connects here, so that a broken network fails at the start
  }
  ~NcclCommunicator() override {
    watchdog_.reset();
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
    start("all_reduce", [&] { return group_->allreduce(tensors); })();
    copy_back(tensor, tensors[0]);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {on_device(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    start("broadcast", [&] { return group_->broadcast(tensors, options); })();
    copy_back(tensor, tensors[0]);
  }
  void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) override {
    HYDRA_CHECK(static_cast<int>(outputs.size()) == size_, "found ", outputs.size(), " outputs for ", size_, " ranks");
    std::vector<at::Tensor> inputs = {on_device(input)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (const at::Tensor& output : outputs) {
      all[0].push_back(on_device(output));
    }
    start("all_gather", [&] { return group_->allgather(all, inputs); })();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      copy_back(outputs[i], all[0][i]);
    }
  }
  void barrier() override {
    at::Tensor token = at::zeros({1}, at::TensorOptions().device(device_));
    start("barrier", [&] {
      std::vector<at::Tensor> tensors = {token};
      return group_->allreduce(tensors);
    })();
    stream().synchronize();
  }

  Wait start_reduce_scatter(const at::Tensor& output, const at::Tensor& input) override {
    at::Tensor target = output, source = input;
    return start("reduce_scatter", [&] { return group_->_reduce_scatter_base(target, source); });
  }
  Wait start_all_gather(const at::Tensor& output, const at::Tensor& input) override {
    at::Tensor target = output, source = input;
    return start("all_gather", [&] { return group_->_allgather_base(target, source); });
  }
  bool start_blocks() const override { return false; }

  double take_wait_seconds() override {
    double milliseconds = 0.0;
    for (const auto& [begin, end] : std::exchange(waits_, {})) {
      end->synchronize();
      milliseconds += begin->elapsed_time(*end);
    }
    return 1e-3 * milliseconds;
  }

 private:
  at::cuda::CUDAStream stream() const { return at::cuda::getCurrentCUDAStream(device_.index()); }
  Event record() const {
    auto event = std::make_shared<at::cuda::CUDAEvent>(cudaEventDefault);  // with timing
    event->record(stream());
    return event;
  }

  template <class Enqueue>
  Wait start(const std::string& name, const Enqueue& enqueue) {
    const Event before = record();
    const Work work = enqueue();
    watchdog_->watch({name, [before] { return before->query(); },
                      [work, name] {
                        const bool over = work->isCompleted();
                        if (const std::exception_ptr failure = work->exception()) {
                          fail(name, failure);
                        }
                        return over;
                      }});
    return [this, work] {
      const Event begin = record();
      work->wait();
      waits_.emplace_back(begin, record());
    };
  }
  [[noreturn]] static void fail(const std::string& name, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw Error("collective " + name + " failed: " + text.substr(0, text.find('\n')));
    }
  }

  at::Tensor on_device(const at::Tensor& tensor) const { return tensor.to(device_).contiguous(); }
  static void copy_back(at::Tensor& target, const at::Tensor& result) {
    if (!target.is_same(result)) {
      const at::NoGradGuard no_grad;
      target.copy_(result);
    }
  }

  const int rank_, size_;
  const at::Device device_;
  std::vector<std::pair<Event, Event>> waits_;  // around each Wait, on the stream that waited
  std::unique_ptr<Watchdog> watchdog_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const LaunchEnv& env, const c10::Device& device,
                                                     int timeout_seconds) {
  c10::cuda::set_device(device.index());
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  const Store store = open_store(env, timeout_seconds);
  join(*store, env, device_identity(device), timeout_seconds);
  return std::make_unique<NcclCommunicator>(store, env, device, timeout_seconds);
}

}  // namespace hydra::dist
