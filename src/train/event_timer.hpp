#pragma once
// Times of GPU calls for the benchmarks. Every call is timed by a pair of events with a write of 512 MiB before it,
// which leaves the L2 cache without the inputs and gives the host time to enqueue the call.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hydra::train {

class EventTimer {
 public:
  EventTimer();

  // Of 5 to 100 calls after a warm-up, on the current stream.
  double median_ms(const std::function<void()>& call);
  // The rate of a plain copy of 1 GiB, bytes read plus bytes written.
  double copy_bytes_per_second();

 private:
  std::vector<double> times_ms(const std::function<void()>& call, int count);

  at::Tensor flush_;
};

}  // namespace hydra::train
