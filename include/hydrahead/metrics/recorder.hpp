#pragma once
// One call a step for everything that is written about a training run: <dir>/metrics.jsonl (the record), TensorBoard
// events in <dir>/tensorboard, and the latest values in <dir>/metrics.prom.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/metrics/event_file.hpp"
#include "hydrahead/metrics/jsonl_sink.hpp"

namespace hydra::metrics {

struct RecorderOptions {
  std::int64_t last_step = -1;  // of the checkpoint that a resumed run starts from; -1: a new run
  bool tensorboard = true;
  std::string run_name;  // label of the Prometheus values
};

struct StepRecord {
  std::int64_t step = 0;  // of the run: counts up over all stages
  std::string stage;      // "align", "distill", ...; prefix of the TensorBoard tags
  std::vector<Scalar> scalars;
  Json details;  // further members of the JSONL line (document ids, layer losses, ...); null for none
};

class Recorder {
 public:
  Recorder(std::filesystem::path dir, RecorderOptions options);
  void record(const StepRecord& record);

 private:
  std::filesystem::path dir_;
  RecorderOptions options_;
  JsonlSink jsonl_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace hydra::metrics
