#pragma once
// Builds micro-batches of rows on a background thread, a bounded number ahead of the trainer. The cursor stays with the
// caller: batch n holds the rows that `indices(n)` names, so a resumed run starts the loader at its own batch number.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "hydrahead/data/batch.hpp"

namespace hydra::data {

class RowLoader {
 public:
  using Indices = std::function<std::vector<std::uint64_t>(std::uint64_t batch)>;

  // `rows` must outlive the loader; `depth` batches are built ahead.
  RowLoader(const RowSource& rows, Indices indices, std::uint64_t first_batch, std::size_t depth = 4);
  RowLoader(const RowLoader&) = delete;
  RowLoader& operator=(const RowLoader&) = delete;
  ~RowLoader();

  // Batch first_batch, first_batch + 1, ...; rethrows what building it threw, at this and every later call.
  std::vector<Row> next();

 private:
  void work();

  const RowSource& rows_;
  Indices indices_;
  std::uint64_t next_batch_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<Row>> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread worker_;  // last: starts when everything else is in place
};

}  // namespace hydra::data
