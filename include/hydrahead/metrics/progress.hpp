#pragma once
// Progress of a long loop: on a terminal one line on standard error that is rewritten in place, otherwise a log line
// every few seconds. Both hold percent, rate and the time that is left.

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace hydra::metrics {

struct ProgressOptions {
  std::string title;  // "align"
  std::string unit = "steps";
  std::int64_t total = 0;     // units of the whole loop
  std::int64_t done = 0;      // units that an earlier run did: they count in the percentage, not in the rate
  double log_seconds = 10.0;  // between log lines where standard error is no terminal
  // For tests; the defaults are std::cerr, whether standard error is a terminal, and a steady clock in seconds.
  std::ostream* out = nullptr;
  std::function<double()> clock = {};
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `detail` stands at the end of the line: "loss 0.123".
  void update(std::int64_t done, std::string_view detail = {});
  // The last state as one line that stays.
  void finish();

 private:
  std::string line(double now) const;
  ProgressOptions options_;
  bool terminal_;
  double start_, shown_;
  std::int64_t first_, done_;
  std::string detail_;
  bool finished_ = false;
};

// "2 h 05 min", "3 min 07 s", "12 s".
std::string duration_text(double seconds);
// Three significant digits with a decimal suffix: "950", "1.25K", "3.1M".
std::string count_text(double count);

}  // namespace hydra::metrics
