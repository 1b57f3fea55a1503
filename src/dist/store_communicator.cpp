// Collectives of processes on CPUs, through the store where they met: each rank puts its tensor there and reads the
// others'. Sums are taken in the order of the ranks, so every rank gets the same bits. Meant for small models and for
// trying out a job before it goes to GPUs: all bytes pass through rank 0.

#include "store_communicator.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "watchdog.hpp"

namespace hydra::dist {
namespace {

constexpr std::size_t kPieceBytes = 4u << 20;  // the store takes messages of 8 MiB at most

class StoreCommunicator : public Communicator {
 public:
  StoreCommunicator(Store store, const LaunchEnv& env, int timeout_seconds)
      : store_(std::move(store)),
        rank_(env.rank),
        size_(env.world_size),
        watchdog_(store_->clone(), env, env.rank == 0 && !env.agent_store, timeout_seconds) {
    store_->setTimeout(std::chrono::hours(24 * 20));  // the watchdog knows when to give up; poll's limit is 24 days
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce_sum(at::Tensor& tensor) override {
    const auto all = exchange("all_reduce", {tensor});
    copy_into(tensor, sum(all));
  }
  void broadcast(at::Tensor& tensor, int root) override {
    HYDRA_CHECK(root >= 0 && root < size_, "root is ", root, " of ", size_, " ranks");
    copy_into(tensor, exchange("broadcast", {tensor})[static_cast<std::size_t>(root)]);
  }
  void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) override {
    HYDRA_CHECK(static_cast<int>(outputs.size()) == size_, "found ", outputs.size(), " outputs for ", size_, " ranks");
    const auto all = exchange("all_gather", {input});
    for (std::size_t i = 0; i < all.size(); ++i) {
      copy_into(outputs[i], all[i]);
    }
  }
  void barrier() override { exchange("barrier", {at::zeros({1}, at::kByte)}); }

  Wait start_reduce_scatter(const at::Tensor& output, const at::Tensor& input) override {
    std::vector<at::Tensor> parts;
    parts.reserve(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      parts.push_back(input.narrow(0, rank * output.numel(), output.numel()));
    }
    copy_into(output, sum(exchange("reduce_scatter", parts)));
    return [] {};
  }
  Wait start_all_gather(const at::Tensor& output, const at::Tensor& input) override {
    copy_into(output, at::cat(exchange("all_gather", {input})));
    return [] {};
  }
  bool start_blocks() const override { return true; }
  double take_wait_seconds() override { return std::exchange(waited_, 0.0); }

 private:
  static void copy_into(const at::Tensor& target, const at::Tensor& value) {
    const at::NoGradGuard no_grad;
    target.copy_(value);
  }
  static at::Tensor sum(const std::vector<at::Tensor>& all) {
    at::Tensor total = all[0].clone();
    for (std::size_t i = 1; i < all.size(); ++i) {
      total.add_(all[i]);
    }
    return total;
  }
  // From rank `from` to rank `to`, or to all (-1).
  std::string key(std::int64_t number, int from, int to, std::size_t piece) const {
    return detail::concat("c/", number, '/', from, '/', to, '/', piece);
  }

  // `parts`: one tensor for each rank, or one for all of them. Returns what each rank has for this one. Should another
  // rank be missing, the watchdog ends the process.
  std::vector<at::Tensor> exchange(const std::string& name, const std::vector<at::Tensor>& parts) {
    const at::NoGradGuard no_grad;
    const auto begin = std::chrono::steady_clock::now();
    const auto over = std::make_shared<std::atomic<bool>>(false);
    watchdog_.watch({name, [] { return true; }, [over] { return over->load(); }});
    ++number_;
    std::vector<at::Tensor> all;
    try {
      all = put_and_take(parts);
    } catch (const c10::Error&) {
      throw Error(Watchdog::store_is_gone(number_, name));
    }
    over->store(true);
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return all;
  }

  std::vector<at::Tensor> put_and_take(const std::vector<at::Tensor>& parts) {
    const bool one_for_all = parts.size() == 1;
    std::vector<std::string> mine;
    for (int to = 0; to < static_cast<int>(parts.size()); ++to) {
      if (one_for_all || to != rank_) {
        put(parts[static_cast<std::size_t>(to)], one_for_all ? -1 : to, mine);
      }
    }
    const at::Tensor& own = parts[one_for_all ? 0 : static_cast<std::size_t>(rank_)];
    std::vector<at::Tensor> all;
    all.reserve(static_cast<std::size_t>(size_));
    for (int from = 0; from < size_; ++from) {
      all.push_back(from == rank_ ? own.contiguous() : take(from, one_for_all ? -1 : rank_, own));
    }
    // Whoever has put something for this collective has read everything of the one before.
    for (const std::string& old : std::exchange(written_, std::move(mine))) {
      store_->deleteKey(old);
    }
    return all;
  }

  void put(const at::Tensor& tensor, int to, std::vector<std::string>& keys) {
    const at::Tensor values = tensor.contiguous();
    const auto* bytes = static_cast<const std::uint8_t*>(values.const_data_ptr());
    const std::size_t size = values.nbytes();
    for (std::size_t begin = 0, piece = 0; begin < size; begin += kPieceBytes, ++piece) {
      keys.push_back(key(number_, rank_, to, piece));
      store_->set(keys.back(), std::vector<std::uint8_t>(bytes + begin, bytes + std::min(size, begin + kPieceBytes)));
    }
  }

  at::Tensor take(int from, int to, const at::Tensor& like) {
    at::Tensor values = at::empty(like.sizes(), like.options().requires_grad(false));
    auto* target = static_cast<std::uint8_t*>(values.mutable_data_ptr());
    const std::size_t size = values.nbytes();
    for (std::size_t begin = 0, piece = 0; begin < size; begin += kPieceBytes, ++piece) {
      const std::vector<std::uint8_t> bytes = store_->get(key(number_, from, to, piece));
      HYDRA_CHECK(bytes.size() == std::min(size - begin, kPieceBytes), "ranks ", rank_, " and ", from,
                  " are in different collectives or bring different shapes");
      std::memcpy(target + begin, bytes.data(), bytes.size());
    }
    return values;
  }

  const Store store_;
  const int rank_, size_;
  std::int64_t number_ = 0;
  std::vector<std::string> written_;  // keys of this rank's last collective
  double waited_ = 0.0;
  Watchdog watchdog_;  // last: ends first
};

}  // namespace

std::unique_ptr<Communicator> make_store_communicator(const LaunchEnv& env, int timeout_seconds) {
  Store store = open_store(env, timeout_seconds);
  join(*store, env, "", timeout_seconds);
  return std::make_unique<StoreCommunicator>(std::move(store), env, timeout_seconds);
}

}  // namespace hydra::dist
