#include "hydrahead/train/run_log.hpp"

#include <cstdio>

#include "hydrahead/base/log.hpp"
#include "hydrahead/metrics/throughput.hpp"

namespace hydra::train {
namespace {

std::vector<metrics::Scalar> loss_scalars(const Stage& stage, const LossReport& report, const std::string& prefix) {
  std::vector<metrics::Scalar> scalars{{prefix + "loss", report.loss}};
  for (std::size_t i = 0; i < stage.parts.size(); ++i) {
    scalars.push_back({prefix + stage.parts[i].name, report.parts[i]});
  }
  return scalars;
}

std::string progress_text(const Stage& stage, const checkpoint::RunState& state, const StepReport& report,
                          double tokens_per_second) {
  char text[160];
  std::snprintf(text, sizeof text, "%s %lld/%lld, loss %.4g, lr %.3g, %s tok/s", stage.name.c_str(),
                static_cast<long long>(state.step), static_cast<long long>(state.total_steps), report.losses.loss,
                report.rate, metrics::count_text(tokens_per_second).c_str());
  return text;
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& run_dir, const LogConfig& config, dist::Communicator& communicator,
               const c10::Device& device, std::int64_t last_step, std::int64_t done_tokens, std::int64_t total_tokens)
    : config_(config),
      communicator_(communicator),
      device_(device),
      peak_flops_(device_info(device).peak_flops),
      documents_(run_dir / detail::concat("documents.rank", communicator.rank(), ".jsonl"),
                 last_step > 0 ? last_step : -1) {
  if (communicator.rank() != 0) {
    return;
  }
  // A run that more ranks began has files that nobody continues: their later steps are read again by others.
  const auto file_of_rank = [&](int rank) { return run_dir / detail::concat("documents.rank", rank, ".jsonl"); };
  for (int rank = communicator.size(); std::filesystem::exists(file_of_rank(rank)); ++rank) {
    metrics::JsonlSink(file_of_rank(rank), last_step > 0 ? last_step : -1);
  }
  metrics::RecorderOptions options;
  options.last_step = last_step > 0 ? last_step : -1;
  options.tensorboard = config.tensorboard;
  options.run_name = run_dir.filename().string();
  recorder_ = std::make_unique<metrics::Recorder>(run_dir, options);
  metrics::ProgressOptions progress;
  progress.title = "train";
  progress.unit = "tokens";
  progress.total = total_tokens;
  progress.done = done_tokens;
  progress_ = std::make_unique<metrics::Progress>(progress);
}

void RunLog::step(const Stage& stage, const checkpoint::RunState& state, const StepReport& report,
                  double flops_per_token) {
  documents_.write({{"step", state.run_step}, {"stage", stage.name}, {"documents", report.documents}});
  if (!recorder_) {
    return;
  }
  const double tokens_per_second = static_cast<double>(stage.schedule.tokens_per_step()) / report.seconds;
  const int ranks = communicator_.size();
  metrics::StepRecord record;
  record.step = state.run_step;
  record.stage = stage.name;
  record.scalars = loss_scalars(stage, report.losses, "");
  const optim::LrScale& scale = stage.schedule.lr.scale;
  record.scalars.insert(
      record.scalars.end(),
      {{"grad_norm", report.grad_norm},
       {"lr", report.rate * scale.base},
       {"lr_attention", report.rate * scale.attention},
       {"tokens_per_second", tokens_per_second},
       {"tokens_per_second_per_device", tokens_per_second / ranks},
       {"tflops", 1e-12 * flops_per_token * tokens_per_second},
       {"mfu", metrics::model_flops_utilisation(flops_per_token, tokens_per_second, peak_flops_, ranks)},
       {"peak_memory_bytes", static_cast<double>(peak_memory(device_))},
       {"data_wait_ms", 1e3 * report.data_seconds},
       {"communication_wait_ms", 1e3 * report.communication_seconds},
       {"step_ms", 1e3 * report.seconds},
       {"skipped", report.skipped ? 1.0 : 0.0}});
  record.details = {{"stage_step", state.step}, {"run_tokens", state.run_tokens}, {"counted", report.counted}};
  for (const LossPart& part : stage.parts) {
    record.details["weights"][part.name] = part.weight;
  }
  if (stage.layer_losses) {
    record.details["layer_mse"] = report.losses.layer_mse;
  }
  recorder_->record(record);
  if (state.step == 1) {
    log_info(stage.name, ", step 1: loss ", report.losses.loss, ", gradient norm ", report.grad_norm,
             ", learning rate ", report.rate, " (warm-up ", stage.schedule.lr.warmup, " steps)");
  }
  if (state.step % config_.every == 0 || state.stage_done()) {
    progress_->update(state.run_tokens, progress_text(stage, state, report, tokens_per_second));
  }
}

void RunLog::validation(const Stage& stage, const checkpoint::RunState& state, const LossReport& report) {
  if (!recorder_) {
    return;
  }
  metrics::StepRecord record;
  record.step = state.run_step;
  record.stage = stage.name;
  record.scalars = loss_scalars(stage, report, "validation_");
  recorder_->record(record);
  log_info(stage.name, ", step ", state.step, ": validation loss ", report.loss);
}

void RunLog::finish() {
  if (progress_) {
    progress_->finish();
  }
}

}  // namespace hydra::train
