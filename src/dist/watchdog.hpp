#pragma once
// Ends this rank when a collective cannot complete because another rank is gone, and says which one. A thread looks at
// the collectives under way, tells the other ranks through the store where this one is, and passes a stop signal that
// reached one rank on to all. A thread is needed because the main one may wait in the driver for a kernel that will
// never end. A rank that lives but is late has work of its own (rank 0 converts and tokenizes): it is waited for.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hydrahead/base/error.hpp"
#include "rendezvous.hpp"

namespace hydra::dist {

class Watchdog {
 public:
  // A collective: whether this rank's work has come to it, and whether it is over. Called from the watchdog's thread;
  // `over` throws what went wrong.
  struct Collective {
    std::string name;
    std::function<bool()> reached, over;
  };
  // Ends the process: exit status and reason. Does not return but in tests.
  using End = std::function<void(int status, const std::string& reason)>;

  // `store` is used by the watchdog alone. serves_store: this process must outlive the others' use of it.
  Watchdog(Store store, const LaunchEnv& env, bool serves_store, int timeout_seconds, End end = end_process);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  // Says good-bye to the other ranks. One that serves the store waits for theirs, a few seconds at most.
  ~Watchdog();

  void watch(Collective collective);

  // Said where the store does not answer.
  static std::string store_is_gone(std::int64_t number, const std::string& name);

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    Collective collective;
    std::int64_t number;
    std::optional<Clock::time_point> since;  // when this rank came to it
  };
  struct Status {
    std::int64_t number = 0;  // of the last collective that the rank came to
    std::int64_t beat = 0;    // grows while the process lives
    std::string name = "none";
    bool left = false;
    std::string text() const { return detail::concat("collective ", number, " (", name, ")"); }
  };
  struct Seen {
    Status status;
    Clock::time_point changed = Clock::now();  // when the beat was another one
  };

  static void end_process(int status, const std::string& reason);
  void work();
  void look();
  std::optional<Pending> oldest();
  void come_to(const Pending& pending);
  void publish(bool left);
  void read_statuses();
  void pass_on_stop();
  void require_others(const Pending& pending);
  void restart_clock(std::int64_t number);

  const Store store_;
  const int rank_, size_;
  const bool serves_store_;
  const int timeout_seconds_;
  const End end_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::int64_t begun_ = 0;
  bool stop_ = false;

  Status own_;  // from here on: the watchdog's thread only
  std::vector<Seen> seen_;
  bool stop_announced_ = false;
  std::optional<Clock::time_point> store_lost_;
  std::thread thread_;
};

}  // namespace hydra::dist
