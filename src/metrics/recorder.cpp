#include "hydrahead/metrics/recorder.hpp"

#include <chrono>

#include "hydrahead/metrics/prometheus_file.hpp"

namespace hydra::metrics {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path made(const std::filesystem::path& dir) {
  std::filesystem::create_directories(dir);
  return dir;
}

}  // namespace

Recorder::Recorder(std::filesystem::path dir, RecorderOptions options)
    : dir_(made(dir)), options_(std::move(options)), jsonl_(dir_ / "metrics.jsonl", options_.last_step) {
  if (options_.tensorboard) {
    events_ = std::make_unique<EventFile>(dir_ / "tensorboard", unix_time(), options_.last_step + 1);
  }
}

void Recorder::record(const StepRecord& record) {
  const double now = unix_time();
  Json line = {{"step", record.step}, {"stage", record.stage}, {"time", now}};
  std::vector<Scalar> tagged;
  std::vector<Gauge> gauges = {{"hydrahead_step", static_cast<double>(record.step)}};
  for (const Scalar& scalar : record.scalars) {
    line[scalar.tag] = scalar.value;
    tagged.push_back({record.stage + "/" + scalar.tag, scalar.value});
    gauges.push_back({"hydrahead_" + scalar.tag, scalar.value});
  }
  if (record.details.is_object()) {
    line.update(record.details);
  }
  jsonl_.write(line);
  if (events_) {
    events_->write(now, record.step, tagged);
  }
  write_prometheus(dir_ / "metrics.prom", gauges, {{"run", options_.run_name}, {"stage", record.stage}});
}

}  // namespace hydra::metrics
