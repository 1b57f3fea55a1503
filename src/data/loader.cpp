#include "hydrahead/data/loader.hpp"

#include <utility>

namespace hydra::data {

RowLoader::RowLoader(const RowSource& rows, Indices indices, std::uint64_t first_batch, std::size_t depth)
    : rows_(rows),
      indices_(std::move(indices)),
      next_batch_(first_batch),
      depth_(depth > 0 ? depth : 1),
      worker_([this] { work(); }) {}

RowLoader::~RowLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void RowLoader::work() {
  try {
    while (true) {
      std::vector<Row> batch;
      for (const std::uint64_t index : indices_(next_batch_)) {
        batch.push_back(rows_.row(index));
      }
      ++next_batch_;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
      if (stop_) {
        return;
      }
      ready_.push_back(std::move(batch));
      lock.unlock();
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

std::vector<Row> RowLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
  if (ready_.empty()) {
    std::rethrow_exception(failure_);
  }
  std::vector<Row> batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace hydra::data
