#pragma once
// Peak of live CPU tensor bytes while a function runs, from the allocator's own reports; memory that was there before
// is not counted.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace hydra::test {

class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t change, std::size_t, std::size_t, c10::Device) override {
    const std::int64_t live = live_ += change;
    std::int64_t peak = peak_;
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::atomic<std::int64_t> live_ = 0, peak_ = 0;
};

template <class Function>
std::int64_t peak_bytes(const Function& function) {
  const auto bytes = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
  function();
  return bytes->peak();
}

}  // namespace hydra::test
