#include "watchdog.hpp"

#include <algorithm>
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
      seen_(static_cast<std::size_t>(env.world_size)),
      thread_([this] { work(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const Pending& pending : pending_) {  // begun: other ranks need not wait for this one there
    come_to(pending);
  }
  try {
    publish(/*left=*/true);
    const auto deadline = Clock::now() + kGoodbye;
    const auto somebody_stays = [&] {
      read_statuses();
      return std::any_of(seen_.begin(), seen_.end(), [](const Seen& rank) { return !rank.status.left; });
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
      ++own_.beat;
      publish(/*left=*/false);
      pass_on_stop();
      read_statuses();
      if (pending) {
        require_others(*pending);
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

void Watchdog::come_to(const Pending& pending) {
  own_.number = pending.number;
  own_.name = pending.collective.name;
}

// The oldest collective that is not over, if this rank has come to it.
std::optional<Watchdog::Pending> Watchdog::oldest() {
  const std::lock_guard lock(mutex_);
  while (!pending_.empty() && pending_.front().collective.over()) {
    come_to(pending_.front());
    pending_.pop_front();
  }
  if (pending_.empty() || !pending_.front().collective.reached()) {
    return std::nullopt;
  }
  Pending& front = pending_.front();
  come_to(front);
  front.since = front.since ? front.since : Clock::now();
  return front;
}

// Of the collective `number`, should it still be under way.
void Watchdog::restart_clock(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty() && pending_.front().number == number) {
    pending_.front().since = Clock::now();
  }
}

void Watchdog::publish(bool left) {
  store_->set(status_key(rank_), detail::concat(own_.number, ' ', own_.beat, ' ', left ? 1 : 0, ' ', own_.name));
}

void Watchdog::read_statuses() {
  for (int rank = 0; rank < size_; ++rank) {
    Seen& seen = seen_[static_cast<std::size_t>(rank)];
    Status status;
    if (store_->check({status_key(rank)})) {
      std::istringstream text(store_->get_to_str(status_key(rank)));
      text >> status.number >> status.beat >> status.left >> status.name;
    }
    seen.changed = status.beat == seen.status.beat ? seen.changed : Clock::now();
    seen.status = status;
  }
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

void Watchdog::require_others(const Pending& pending) {
  const auto timeout = std::chrono::seconds(timeout_seconds_);
  const auto now = Clock::now();
  const std::string waits =
      detail::concat("this rank waits for it in collective ", pending.number, " (", pending.collective.name, ")");
  std::string late;
  for (int rank = 0; rank < size_; ++rank) {
    const auto& [status, changed] = seen_[static_cast<std::size_t>(rank)];
    if (rank == rank_) {
      continue;
    }
    if (status.left && status.number < pending.number) {
      end_(stop_requested() ? kStopped : kFailed,
           detail::concat("rank ", rank, " has ended after ", status.text(), "; ", waits));
      return;
    }
    if (!status.left && now - changed > timeout) {
      end_(kFailed, detail::concat("rank ", rank, " does not answer since ", timeout_seconds_, " s, when it was at ",
                                   status.text(), "; ", waits));
      return;
    }
    if (status.number < pending.number) {
      late += detail::concat(late.empty() ? "" : ", ", "rank ", rank, " at ", status.text());
    }
  }
  if (now - *pending.since <= timeout) {
    return;
  }
  if (late.empty()) {
    end_(kFailed,
         detail::concat("collective ", pending.number, " (", pending.collective.name, ") did not complete within ",
                        timeout_seconds_, " s, although all ranks have come to it"));
    return;
  }
  log_warning("waited ", timeout_seconds_, " s in collective ", pending.number, " (", pending.collective.name, ") for ",
              late);
  restart_clock(pending.number);
}

}  // namespace hydra::dist
