// Ranks that are threads of one process: for tests of everything distributed on one device. Sums are taken in the order
// of the ranks, so every rank gets the same bits.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/dist/communicator.hpp"

namespace hydra::dist {
namespace {

// What the ranks share: a barrier that a failing or leaving rank breaks (std::barrier would wait for ever), and a slot
// a rank.
class Meeting {
 public:
  explicit Meeting(int ranks) : slots(static_cast<std::size_t>(ranks)), ranks_(ranks) {}

  std::vector<std::vector<at::Tensor>> slots;  // what each rank brings to the current collective

  void wait() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++waiting_ == ranks_) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || gone_; });
    if (round_ == round) {
      throw Error("a rank waits in a collective for one that has failed or ended");
    }
  }
  // A rank has failed or ended: from now on no barrier can complete.
  void leave() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

 private:
  const int ranks_;
  int waiting_ = 0;
  std::uint64_t round_ = 0;
  bool gone_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Meeting& meeting, int rank, int size) : meeting_(meeting), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce_sum(at::Tensor& tensor) override {
    at::Tensor sum;
    meet({tensor}, [&] { sum = sum_over_ranks(0, tensor); });
    tensor.copy_(sum);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    HYDRA_CHECK(root >= 0 && root < size_, "root is ", root, " of ", size_, " ranks");
    meet({tensor}, [&] {
      if (rank_ != root) {
        tensor.copy_(brought(root, 0, tensor));
      }
    });
  }
  void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) override {
    HYDRA_CHECK(static_cast<int>(outputs.size()) == size_, "found ", outputs.size(), " outputs for ", size_, " ranks");
    meet({input}, [&] {
      for (int rank = 0; rank < size_; ++rank) {
        outputs[static_cast<std::size_t>(rank)].copy_(brought(rank, 0, input));
      }
    });
  }
  void barrier() override {
    meet({}, [] {});
  }
  Wait start_reduce_scatter(const at::Tensor& output, const at::Tensor& input) override {
    const std::int64_t part = input.numel() / size_;
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < size_; ++rank) {
      parts.push_back(input.narrow(0, rank * part, part));
    }
    at::Tensor sum;
    meet(std::move(parts), [&] { sum = sum_over_ranks(static_cast<std::size_t>(rank_), output); });
    output.copy_(sum);
    return [] {};
  }
  Wait start_all_gather(const at::Tensor& output, const at::Tensor& input) override {
    meet({input}, [&] {
      for (int rank = 0; rank < size_; ++rank) {
        const at::Tensor target = output.narrow(0, rank * input.numel(), input.numel());
        const at::Tensor& source = brought(rank, 0, input);
        if (target.data_ptr() != source.data_ptr()) {
          target.copy_(source);
        }
      }
    });
    return [] {};
  }
  bool start_blocks() const override { return true; }
  double take_wait_seconds() override { return std::exchange(waited_, 0.0); }

 private:
  // All ranks bring their tensors, then all read, then all go on: nobody changes a tensor that another still reads.
  template <class Read>
  void meet(std::vector<at::Tensor> mine, const Read& read) {
    const at::NoGradGuard no_grad;
    const auto begin = std::chrono::steady_clock::now();
    meeting_.slots[static_cast<std::size_t>(rank_)] = std::move(mine);
    meeting_.wait();
    read();
    meeting_.wait();
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  const at::Tensor& brought(int rank, std::size_t index, const at::Tensor& like) const {
    const auto& slot = meeting_.slots[static_cast<std::size_t>(rank)];
    HYDRA_CHECK(index < slot.size() && slot[index].sizes() == like.sizes() && slot[index].dtype() == like.dtype(),
                "ranks ", rank_, " and ", rank, " are in different collectives or bring different shapes");
    return slot[index];
  }
  at::Tensor sum_over_ranks(std::size_t index, const at::Tensor& like) const {
    at::Tensor sum = brought(0, index, like).clone();
    for (int rank = 1; rank < size_; ++rank) {
      sum.add_(brought(rank, index, like));
    }
    return sum;
  }

  Meeting& meeting_;
  const int rank_, size_;
  double waited_ = 0.0;
};

}  // namespace

void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  HYDRA_CHECK(ranks >= 1, "found ", ranks, " ranks");
  Meeting meeting(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](int rank) {
    try {
      ThreadCommunicator communicator(meeting, rank, ranks);
      body(communicator);
    } catch (...) {
      const std::lock_guard lock(mutex);
      first = first ? first : std::current_exception();
    }
    meeting.leave();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(run_rank, rank);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace hydra::dist
