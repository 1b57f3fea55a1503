#include "hydrahead/train/trainer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/data/loader.hpp"
#include "hydrahead/optim/schedule.hpp"
#include "hydrahead/train/micro_batch.hpp"
#include "stage_training.hpp"

namespace hydra::train {
namespace {

constexpr std::int64_t kMaxSkippedSteps = 10;  // consecutive

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

at::Device device_of(const StageJob& job) { return job.student.embed.device(); }

std::int64_t layer_count(const StageJob& job) {
  return job.stage.layer_losses ? static_cast<std::int64_t>(job.student.layers.size()) : 0;
}

// One row of fp64 scalars on the device, so that a step needs one reduction over ranks and one copy to the host:
// [loss, parts..., layers..., stop].
std::int64_t report_size(const StageJob& job) {
  return 2 + static_cast<std::int64_t>(job.stage.parts.size()) + layer_count(job);
}

at::Tensor report_row(const StageJob& job, const StageLoss& loss) {
  std::vector<at::Tensor> values{loss.loss};
  for (const LossPart& part : job.stage.parts) {
    values.push_back(loss.*part.share);
  }
  values.insert(values.end(), loss.layer_mse.begin(), loss.layer_mse.end());
  values.push_back(at::zeros_like(loss.loss));
  return at::stack(values);
}

LossReport read_report(const StageJob& job, const at::Tensor& host_row) {
  const double* value = host_row.data_ptr<double>();
  LossReport report;
  report.loss = *value++;
  for (std::size_t i = 0; i < job.stage.parts.size(); ++i) {
    report.parts.push_back(*value++);
  }
  report.layer_mse.assign(value, value + layer_count(job));
  return report;
}

std::int64_t counted_positions(const Stage& stage, std::span<const data::Row> rows) {
  std::int64_t count = 0;
  for (const data::Row& row : rows) {
    count += stage.counted(row);
  }
  return count;
}

// Micro-batches of the rank with the most rows: all ranks reduce gradients that often.
std::int64_t rounds(const StageJob& job) {
  const std::int64_t ranks = job.communicator.size();
  const std::int64_t rows = (job.stage.schedule.global_batch + ranks - 1) / ranks;
  return (rows + job.micro_batch - 1) / job.micro_batch;
}

// Adds the loss of one micro-batch to `row`, and its gradients to .grad if `backward`.
void run_micro_batch(const StageJob& job, std::span<const data::Row> rows, double divisor, bool backward,
                     at::Tensor& row) {
  if (counted_positions(job.stage, rows) > 0) {  // else it contributes neither loss nor gradient
    row += report_row(job,
                      job.stage.loss(job.student, job.teacher, device_batch(rows, device_of(job)), divisor, backward));
  }
}

at::Tensor empty_row(const StageJob& job) {
  return at::zeros({report_size(job)}, at::TensorOptions(device_of(job)).dtype(at::kDouble));
}

// Over all ranks, with the stop signal of any of them.
void sum_over_ranks(const StageJob& job, at::Tensor& row) {
  row[-1] = stop_requested() ? 1.0 : 0.0;
  if (job.communicator.size() > 1) {
    job.communicator.all_reduce_sum(row);
  }
}

std::span<const data::Row> micro_batch_of(const StageJob& job, std::span<const data::Row> rows, std::size_t round) {
  const auto size = static_cast<std::size_t>(job.micro_batch);
  const std::size_t begin = std::min(rows.size(), round * size);
  return rows.subspan(begin, std::min(size, rows.size() - begin));
}

double global_count(const StageJob& job, std::int64_t local) {
  if (job.communicator.size() == 1) {
    return static_cast<double>(local);
  }
  at::Tensor count = at::full({1}, static_cast<double>(local), at::TensorOptions(device_of(job)).dtype(at::kDouble));
  job.communicator.all_reduce_sum(count);
  return count.item<double>();
}

struct StepOutcome {
  StepReport report;
  bool stop = false;  // on any rank
};

StepOutcome run_step(const StageJob& job, std::int64_t step, data::RowLoader& loader, StageTraining& training) {
  const double start = seconds_now();
  StepOutcome outcome;
  StepReport& report = outcome.report;
  const std::vector<data::Row> rows = loader.next();
  report.data_seconds = seconds_now() - start;
  const double divisor = global_count(job, counted_positions(job.stage, rows));
  HYDRA_REQUIRE(divisor > 0, job.stage.name, ", step ", step + 1,
                ": no row of the batch has a position that the loss counts");

  at::Tensor row = empty_row(job);
  training.gradients.begin_step();
  for (std::int64_t round = 0; round < rounds(job); ++round) {
    training.gradients.begin_micro_batch();
    run_micro_batch(job, micro_batch_of(job, rows, static_cast<std::size_t>(round)), divisor, /*backward=*/true, row);
    training.gradients.end_micro_batch();
  }
  training.gradients.end_step();
  sum_over_ranks(job, row);
  const optim::GradientCheck check =
      optim::check_gradients(training.gradients, training.parameters, job.optimizer.clip, job.communicator);
  report.rate = optim::learning_rate(job.stage.schedule.lr, step, job.stage.schedule.total_steps());
  training.update(check, report.rate);

  // The only wait for the device in a step.
  const at::Tensor host = at::cat({row, at::stack({check.norm, check.non_finite}).to(at::kDouble)}).cpu();
  report.losses = read_report(job, host);
  const double* tail = host.data_ptr<double>() + report_size(job);
  outcome.stop = tail[-1] > 0;
  report.grad_norm = tail[0];
  report.skipped = tail[1] > 0;
  report.counted = static_cast<std::int64_t>(divisor);
  for (const data::Row& each : rows) {
    report.documents.insert(report.documents.end(), each.documents.begin(), each.documents.end());
  }
  report.communication_seconds = job.communicator.take_wait_seconds();
  report.seconds = seconds_now() - start;
  return outcome;
}

void advance(const StageJob& job, checkpoint::RunState& state, const StepReport& report) {
  const StageSchedule& schedule = job.stage.schedule;
  ++state.step;
  ++state.run_step;
  state.stage_tokens += schedule.tokens_per_step();
  state.run_tokens += schedule.tokens_per_step();
  state.next_row += schedule.global_batch;
  state.skipped_steps = report.skipped ? state.skipped_steps + 1 : 0;
  if (report.skipped) {
    log_warning(job.stage.name, ", step ", state.step, ": the gradients are not finite (norm ", report.grad_norm,
                "); no update on any rank");
  }
  if (state.skipped_steps >= kMaxSkippedSteps) {
    throw Error(
        detail::concat(job.stage.name, ", step ", state.step, ": ", state.skipped_steps,
                       " steps in a row had gradients that are not finite; the last checkpoint is from before them"));
  }
}

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

std::optional<LossReport> validate(const StageJob& job) {
  const at::NoGradGuard no_grad;
  std::vector<data::Row> own;
  for (const std::uint64_t i : rows_of_rank(0, static_cast<std::int64_t>(job.validation.size()),
                                            job.communicator.rank(), job.communicator.size())) {
    own.push_back(job.validation[i]);
  }
  const auto divisor = static_cast<double>(counted_positions(job.stage, job.validation));
  HYDRA_REQUIRE(divisor > 0, "data.validation: no row has a position that the loss counts");
  at::Tensor row = empty_row(job);
  for (std::size_t round = 0; !stop_requested() && !micro_batch_of(job, own, round).empty(); ++round) {
    run_micro_batch(job, micro_batch_of(job, own, round), divisor, /*backward=*/false, row);
  }
  sum_over_ranks(job, row);
  const at::Tensor host = row.cpu();
  if (host.data_ptr<double>()[report_size(job) - 1] > 0) {
    return std::nullopt;
  }
  return read_report(job, host);
}

void train_stage(const StageJob& job, checkpoint::RunState& state,
                 const std::optional<checkpoint::Checkpoint>& resume) {
  const StageSchedule& schedule = job.stage.schedule;
  const TrainableSplit split = split_parameters(job.student, job.stage.trains);
  if (job.teacher != nullptr) {
    freeze(*job.teacher);
  }
  std::vector<model::Parameter> teacher_parameters;
  if (job.teacher != nullptr) {
    teacher_parameters = model::parameters(*job.teacher);
  }
  Checksums frozen_before, teacher_before;
  if (job.prove_frozen) {
    frozen_before = checksums(split.frozen);
    teacher_before = checksums(teacher_parameters);
  }
  state.total_steps = schedule.total_steps();
  state.trained = tensor_list(split.trained);
  state.frozen = tensor_list(split.frozen);
  job.on_start(split);

  {
    StageTraining training(job, split);
    if (resume) {
      training.optimizer.load_state(resume->optimizer(), resume->dir.string());
    }
    const auto weights = [&](const auto& wanted) {
      io::NamedTensors tensors = training.parameters.gather(wanted);
      io::NamedTensors frozen = on_host(split.frozen, wanted);
      tensors.insert(tensors.end(), frozen.begin(), frozen.end());
      return tensors;
    };
    const auto indices = [&](std::uint64_t step) {
      return rows_of_rank(step * static_cast<std::uint64_t>(schedule.global_batch), schedule.global_batch,
                          job.communicator.rank(), job.communicator.size());
    };
    data::RowLoader loader(job.rows, indices, static_cast<std::uint64_t>(state.step));
    while (!state.stage_done()) {
      const StepOutcome outcome = run_step(job, state.step, loader, training);
      advance(job, state, outcome.report);
      job.on_step(state, outcome.report);
      bool stop = outcome.stop;
      if (!stop && !job.validation.empty() && (due(state.step, job.validate_every) || state.stage_done())) {
        const std::optional<LossReport> report = validate(job);
        if (report) {
          job.on_validation(state, *report);
        }
        stop = !report;
      }
      if (!state.stage_done() && (stop || due(state.step, job.checkpoint_every))) {
        job.save(state, {weights, training.optimizer.state(job.communicator.rank(), job.communicator.size())});
      }
      if (!state.stage_done() && stop) {
        throw Interrupted(detail::concat(job.stage.name, ": stopped by a signal after step ", state.step, " of ",
                                         state.total_steps, "; the state is saved, --resume continues"));
      }
    }
    training.finish();
  }
  if (job.prove_frozen) {
    require_unchanged(frozen_before, split.frozen, "stage " + job.stage.name);
    require_unchanged(teacher_before, teacher_parameters, "the teacher of stage " + job.stage.name);
  }
  job.save(state, {[&](const auto& wanted) { return on_host(model::parameters(job.student), wanted); }, {}});
}

}  // namespace hydra::train
