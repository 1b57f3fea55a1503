#include "watchdog.hpp"

#include <chrono>
#include <cstdlib>
#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"

namespace hydra::dist {
namespace {

constexpr auto kTick = std::chrono::milliseconds(500);
constexpr auto kGoodbye = std::chrono::seconds(10);    // for the others' last use of the store
constexpr auto kStoreGrace = std::chrono::seconds(2);  // a collective that needs no store may still complete
constexpr int kFailed = 1, kStopped = 75;

std::string status_key(int rank) { return "status/" + std::to_string(rank); }

}  // namespace

Watchdog::Watchdog(Store store, const LaunchEnv& env, bool serves_store, int timeout_seconds, End end)
    : store_(std::move(store)),
      rank_(env.rank),
      size_(env.world_size),
      serves_store_(serves_store),
      timeout_seconds_(timeout_seconds),
      end_(std::move(end)),
      thread_([this] { work(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    publish(/*left=*/true);
    const auto deadline = Clock::now() + kGoodbye;
    const auto somebody_stays = [&] {
      const std::vector<Status> all = statuses();
      return std::any_of(all.begin(), all.end(), [](const Status& status) { return !status.left; });
    };
    while (serves_store_ && Clock::now() < deadline && somebody_stays()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const std::exception&) {
    // The store is gone, and with it whoever would have read this.
  }
}

void Watchdog::watch(Collective collective) {
  const std::lock_guard lock(mutex_);
  last_name_ = collective.name;
  pending_.push_back({std::move(collective), ++begun_, std::nullopt});
}

void Watchdog::end_process(int status, const std::string& reason) {
  status == kStopped ? log_warning(reason) : log_error(reason);
  std::_Exit(status);
}

std::string Watchdog::store_is_gone(std::int64_t number, const std::string& name) {
  return detail::concat("rank 0, which serves the meeting point, has ended; this rank waits in collective ", number,
                        " (", name, ")");
}

void Watchdog::work() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kTick, [this] { return stop_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void Watchdog::look() {
  std::optional<Pending> pending;
  try {
    pending = oldest();
  } catch (const std::exception& error) {
    end_(kFailed, error.what());
    return;
  }
  try {
    if (!store_lost_) {
      ++beat_;
      publish(/*left=*/false);
      pass_on_stop();
      if (pending) {
        require_others_present(*pending);
      }
    }
  } catch (const std::exception&) {
    store_lost_ = Clock::now();
  }
  if (store_lost_ && pending &&
      Clock::now() - std::max(*store_lost_, pending->since.value_or(*store_lost_)) > kStoreGrace) {
    end_(stop_requested() ? kStopped : kFailed, store_is_gone(pending->number, pending->collective.name));
  }
}

// The oldest collective that is not over and that this rank has come to.
std::optional<Watchdog::Pending> Watchdog::oldest() {
  const std::lock_guard lock(mutex_);
  while (!pending_.empty() && pending_.front().collective.over()) {
    pending_.pop_front();
  }
  if (pending_.empty() || !pending_.front().collective.reached()) {
    return std::nullopt;
  }
  Pending& front = pending_.front();
  front.since = front.since ? front.since : Clock::now();
  return front;
}

void Watchdog::publish(bool left) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = detail::concat(begun_, ' ', beat_, ' ', left ? 1 : 0, ' ', last_name_);
  }
  store_->set(status_key(rank_), text);
}

std::vector<Watchdog::Status> Watchdog::statuses() {
  std::vector<Status> all(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({status_key(rank)})) {
      continue;
    }
    std::istringstream text(store_->get_to_str(status_key(rank)));
    Status& status = all[static_cast<std::size_t>(rank)];
    text >> status.number >> status.beat >> status.left >> status.name;
  }
  return all;
}

// A signal that reached one rank stops all of them.
void Watchdog::pass_on_stop() {
  if (stop_announced_) {
    return;
  }
  if (stop_requested()) {
    store_->set("stop", "");
    stop_announced_ = true;
  } else if (store_->check({"stop"})) {
    request_stop();
    stop_announced_ = true;
  }
}

void Watchdog::require_others_present(const Pending& pending) {
  const std::vector<Status> all = statuses();
  for (int rank = 0; rank < size_; ++rank) {
    const Status& status = all[static_cast<std::size_t>(rank)];
    if (status.left && status.number < pending.number) {
      end_(stop_requested() ? kStopped : kFailed,
           detail::concat("rank ", rank, " has ended after collective ", status.number, " (", status.name,
                          "); this rank waits for it in collective ", pending.number, " (", pending.collective.name,
                          ")"));
      return;
    }
  }
  if (Clock::now() - *pending.since > std::chrono::seconds(timeout_seconds_)) {
    end_(kFailed, detail::concat("collective ", pending.number, " (", pending.collective.name,
                                 ") did not complete within ", timeout_seconds_, " s: ", missing_ranks(pending)));
  }
}

// Whose status does not change any more, else who has not begun the collective.
std::string Watchdog::missing_ranks(const Pending& pending) {
  const std::vector<Status> before = statuses();
  std::this_thread::sleep_for(4 * kTick);
  const std::vector<Status> after = statuses();
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    const Status& status = after[static_cast<std::size_t>(rank)];
    const bool silent = status.beat == before[static_cast<std::size_t>(rank)].beat;
    if (rank != rank_ && (silent || status.number < pending.number)) {
      text += detail::concat(text.empty() ? "" : "; ", "rank ", rank,
                             silent ? " does not answer, it was last seen at" : " is at", " collective ", status.number,
                             " (", status.name, ")");
    }
  }
  return text.empty() ? "all ranks have come to it" : text;
}

}  // namespace hydra::dist
