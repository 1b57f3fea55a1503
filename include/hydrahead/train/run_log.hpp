#pragma once
// What is written while a run trains: one record a step (metrics.jsonl, TensorBoard, Prometheus), the document ids that
// each rank read, and one progress line over the whole run.

#include <filesystem>
#include <memory>

#include "hydrahead/metrics/progress.hpp"
#include "hydrahead/metrics/recorder.hpp"
#include "hydrahead/train/device_info.hpp"
#include "hydrahead/train/run_config.hpp"
#include "hydrahead/train/trainer.hpp"

namespace hydra::train {

class RunLog {
 public:
  // last_step and done_tokens: of the state that the run continues from (0, 0: a new run); total_tokens: of all stages.
  RunLog(const std::filesystem::path& run_dir, const LogConfig& config, dist::Communicator& communicator,
         const c10::Device& device, std::int64_t last_step, std::int64_t done_tokens, std::int64_t total_tokens);

  void step(const Stage& stage, const checkpoint::RunState& state, const StepReport& report, double flops_per_token);
  void validation(const Stage& stage, const checkpoint::RunState& state, const LossReport& report);
  void finish();

 private:
  LogConfig config_;
  dist::Communicator& communicator_;
  c10::Device device_;
  double peak_flops_;
  metrics::JsonlSink documents_;
  std::unique_ptr<metrics::Recorder> recorder_;  // rank 0
  std::unique_ptr<metrics::Progress> progress_;  // rank 0
};

}  // namespace hydra::train
