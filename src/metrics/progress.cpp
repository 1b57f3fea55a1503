#include "hydrahead/metrics/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "hydrahead/base/log.hpp"

namespace hydra::metrics {
namespace {

constexpr double terminal_seconds = 0.2;  // between redraws

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class... Args>
std::string formatted(const char* format, Args... args) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) {
    return formatted("%ld h %02ld min", whole / 3600, whole / 60 % 60);
  }
  if (whole >= 60) {
    return formatted("%ld min %02ld s", whole / 60, whole % 60);
  }
  return formatted("%ld s", whole);
}

std::string count_text(double count) {
  constexpr std::array<const char*, 5> suffixes = {"", "K", "M", "B", "T"};
  std::size_t power = 0;
  while (std::abs(count) >= 999.5 && power + 1 < suffixes.size()) {
    count /= 1000.0;
    ++power;
  }
  return formatted("%.3g%s", count, suffixes[power]);
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      terminal_(options_.out != nullptr || ::isatty(STDERR_FILENO) == 1),
      first_(options_.done),
      done_(options_.done) {
  if (options_.out == nullptr) {
    options_.out = &std::cerr;
  }
  if (!options_.clock) {
    options_.clock = steady_seconds;
  }
  start_ = shown_ = options_.clock();
}

Progress::~Progress() {
  if (terminal_ && !finished_) {
    *options_.out << "\r\x1b[K" << std::flush;
  }
}

void Progress::update(std::int64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  const double now = options_.clock();
  if (now - shown_ < (terminal_ ? terminal_seconds : options_.log_seconds)) {
    return;
  }
  shown_ = now;
  if (terminal_) {  // the cursor goes back to the start, so that a log line overwrites it
    *options_.out << line(now) << "\x1b[K\r" << std::flush;
  } else {
    log_info(line(now));
  }
}

void Progress::finish() {
  if (finished_) {
    return;
  }
  finished_ = true;
  const double now = options_.clock();
  if (terminal_) {
    *options_.out << line(now) << "\x1b[K\n" << std::flush;
  } else {
    log_info(line(now));
  }
}

std::string Progress::line(double now) const {
  const double seconds = now - start_;
  const double rate = seconds > 0 ? static_cast<double>(done_ - first_) / seconds : 0.0;
  std::string text = options_.title + " " + count_text(static_cast<double>(done_)) + "/" +
                     count_text(static_cast<double>(options_.total)) + " " + options_.unit;
  if (options_.total > 0) {
    text += formatted(" %.0f%%", 100.0 * static_cast<double>(done_) / static_cast<double>(options_.total));
  }
  if (rate > 0) {
    text += ", " + count_text(rate) + " " + options_.unit + "/s";
  }
  if (finished_) {
    text += ", took " + duration_text(seconds);
  } else if (rate > 0) {
    text += ", " + duration_text(static_cast<double>(options_.total - done_) / rate) + " left";
  }
  return detail_.empty() ? text : text + ", " + detail_;
}

}  // namespace hydra::metrics
