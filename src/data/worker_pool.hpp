#pragma once
// A fixed number of threads that run tasks in the order in which they were submitted.

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace hydra::data {

template <class Result>
class WorkerPool {
 public:
  explicit WorkerPool(int workers) {
    for (int i = 0; i < workers; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }
  // Waits for the tasks that run; those not yet begun are dropped.
  ~WorkerPool() {
    for (std::jthread& thread : threads_) {
      thread.request_stop();
    }
  }

  template <class Task>
  std::future<Result> submit(Task task) {
    std::packaged_task<Result()> packaged(std::move(task));
    std::future<Result> result = packaged.get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(packaged));
    }
    ready_.notify_one();
    return result;
  }

 private:
  void work(const std::stop_token& stop) {
    while (true) {
      std::packaged_task<Result()> task;
      {
        std::unique_lock lock(mutex_);
        if (!ready_.wait(lock, stop, [this] { return !tasks_.empty(); }) || stop.stop_requested()) {
          return;
        }
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();  // an exception goes into the future
    }
  }

  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::packaged_task<Result()>> tasks_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace hydra::data
