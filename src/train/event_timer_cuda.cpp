#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <utility>

#include "event_timer.hpp"

namespace hydra::train {
namespace {

constexpr double kMeasuredMs = 300.0;  // time spent on a median, about

}  // namespace

EventTimer::EventTimer()
    : flush_(at::empty({std::int64_t{512} << 20}, at::TensorOptions(at::kCUDA).dtype(at::kByte))) {}

double EventTimer::median_ms(const std::function<void()>& call) {
  for (int i = 0; i < 2; ++i) {
    call();
  }
  const double once = times_ms(call, 1).front();
  auto times = times_ms(call, std::clamp(static_cast<int>(kMeasuredMs / once), 5, 100));
  std::sort(times.begin(), times.end());
  const std::size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : 0.5 * (times[half - 1] + times[half]);
}

double EventTimer::copy_bytes_per_second() {
  const auto from = at::zeros({std::int64_t{1} << 30}, flush_.options());
  auto to = at::empty_like(from);
  return 2e3 * static_cast<double>(from.nbytes()) / median_ms([&] { to.copy_(from); });
}

std::vector<double> EventTimer::times_ms(const std::function<void()>& call, int count) {
  std::vector<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>> events;
  for (int i = 0; i < count; ++i) {
    auto& [start, stop] =
        events.emplace_back(at::cuda::CUDAEvent(cudaEventDefault), at::cuda::CUDAEvent(cudaEventDefault));
    flush_.zero_();
    start.record();
    call();
    stop.record();
  }
  events.back().second.synchronize();
  std::vector<double> times;
  for (auto& [start, stop] : events) {
    times.push_back(start.elapsed_time(stop));
  }
  return times;
}

}  // namespace hydra::train
