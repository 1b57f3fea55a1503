#include "hydrahead/train/training_run.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/checkpoint/retention.hpp"
#include "hydrahead/data/rows.hpp"
#include "hydrahead/train/conversion.hpp"
#include "hydrahead/train/memory_estimate.hpp"
#include "hydrahead/train/run_log.hpp"
#include "run_stages.hpp"

namespace hydra::train {
namespace {

at::ScalarType compute_type(const RunConfig& config, const at::Device& device) {
  const bool bf16 = config.precision == Precision::bf16 || (config.precision == Precision::automatic && device.is_cuda());
  return bf16 ? at::kBFloat16 : at::kFloat;
}

void check_request(const RunConfig& config, const TrainOptions& options, int ranks) {
  HYDRA_REQUIRE(!config.teacher.empty(), "teacher: found nothing, expected a Qwen3 checkpoint directory");
  HYDRA_REQUIRE(!config.run_dir.empty(), "run_dir: found nothing, expected a directory");
  HYDRA_REQUIRE(config.stages.align || config.stages.distill || config.stages.long_context,
                "stages: found none, expected align, distill or long_context");
  HYDRA_REQUIRE(config.parallel.context == 1 && config.parallel.shard == Shard::none,
                "parallel: context and shard: this version trains with context: 1 and shard: none");
  HYDRA_REQUIRE(config.parallel.data == ranks, "parallel.data: found ", config.parallel.data, ", expected ", ranks,
                ", the number of ranks of this job");
  HYDRA_REQUIRE(options.resume || options.resume_from.empty(), "a checkpoint to continue from needs --resume");
}

// Rows of one stage are drawn apart from those of another.
std::uint64_t row_seed(const RunConfig& config, const Stage& stage) {
  const std::uint64_t number = stage.name == "align" ? 1 : stage.name == "distill" ? 2 : 3;
  return static_cast<std::uint64_t>(config.seed) + (number << 32);
}

class TrainingRun {
 public:
  TrainingRun(const RunConfig& config, const TrainOptions& options, dist::Communicator& communicator, const at::Device& device)
      : config_(config),
        options_(options),
        communicator_(communicator),
        device_(device),
        directory_{config.run_dir},
        compute_type_(compute_type(config, device)),
        tokenizer_(text::Tokenizer::load(config.teacher)),
        teacher_config_(model::read_model_config(io::HfModelDir::open(config.teacher))),
        stages_(make_stages(config.stages, config.hybrid.fa.log_scale.mode, tokenizer_.id_limit())) {}

  void run() {
    on_first_rank([&] { open_run_directory(config_, options_.resume, options_.only_stage); });
    if (!fs::exists(directory_.converted())) {
      on_first_rank([&] { run_conversion(config_, directory_.converted()); });
      poll_signal("converting");
    }
    const std::vector<StageProgress> progress = find_progress(config_, options_, directory_, stages_);
    communicator_.barrier();  // before anything of what all ranks have read is moved
    require_disk_space();
    open_log(progress);

    source_ = directory_.converted();
    std::optional<checkpoint::RunState> before;
    for (const StageProgress& next : progress) {
      if (next.checkpoint) {
        source_ = next.checkpoint->model_dir();
        student_.reset();
      }
      before = next.done() ? next.checkpoint->state : train(next, before);
      export_result(*next.stage);
      poll_signal("stage " + next.stage->name);
    }
    log_->finish();
  }

 private:
  void on_first_rank(const std::function<void()>& action) {
    if (communicator_.rank() == 0) {
      action();
    }
    communicator_.barrier();
  }

  void poll_signal(const std::string& after) {
    if (dist::any_rank(communicator_, stop_requested())) {
      throw Interrupted("stopped by a signal after " + after + "; --resume continues");
    }
  }

  void require_disk_space() {
    const model::ModelConfig hybrid = model::read_model_config(io::HfModelDir::open(directory_.converted()));
    std::int64_t bytes = 0, largest = 0;
    for (const Stage& stage : stages_) {
      const ParameterCounts counts = parameter_counts(hybrid, stage);
      bytes += 4 * counts.all + 4 * counts.all;  // the last checkpoint's weights, the exported result (fp32 at most)
      largest = std::max(largest, checkpoint_bytes(counts));
    }
    on_first_rank([&] {
      checkpoint::require_space(directory_.root, static_cast<std::uint64_t>(bytes + (config_.checkpoint.keep + 1) * largest),
                                "this run (checkpoints and results)");
    });
  }

  void open_log(const std::vector<StageProgress>& progress) {
    std::int64_t last_step = 0, done = 0, total = 0;
    for (const StageProgress& each : progress) {
      if (each.checkpoint) {
        last_step = each.checkpoint->state.run_step;
        done = each.checkpoint->state.run_tokens;
      }
      total += each.stage->schedule.total_steps() * each.stage->schedule.tokens_per_step();
    }
    log_ = std::make_unique<RunLog>(directory_.root, config_.log, communicator_, device_, last_step, done, total);
  }

  // In memory since the stage before, or loaded from where that one's result is.
  model::Model& student() {
    if (!student_) {
      student_ = model::load_model(source_, {device_, at::kFloat, compute_type_});
    }
    return *student_;
  }

  // Trains one stage to its end and returns its last state.
  checkpoint::RunState train(const StageProgress& next, const std::optional<checkpoint::RunState>& before) {
    const Stage& stage = *next.stage;
    const StageSchedule& schedule = stage.schedule;
    checkpoint::RunState state =
        next.checkpoint ? next.checkpoint->state : first_state(config_, stage, before ? &*before : nullptr);
    announce(next, state);
    on_first_rank([&] {
      for (const std::string& done : checkpoint::set_aside_after(directory_.stage(stage.name), state.step)) {
        log_warning(done);
      }
    });
    load_teacher(stage);
    const data::Packing packing = schedule.packing.value_or(config_.data.packing);
    const auto rows = data::make_rows(config_.data, schedule.context, packing, tokenizer_, teacher_config_.base.vocab_size,
                                      row_seed(config_, stage));
    const std::vector<data::Row> validation =
        data::validation_rows(config_.data.validation, schedule.context, packing, tokenizer_, teacher_config_.base.vocab_size);
    const double flops = stage.flops_per_token(flops_shape(student().config), flops_shape(teacher_config_));
    const StageJob job{
        .stage = stage,
        .student = student(),
        .teacher = stage.needs_teacher ? &*teacher_ : nullptr,
        .rows = *rows,
        .validation = validation,
        .optimizer = config_.optimizer,
        .communicator = communicator_,
        .micro_batch = choose_micro_batch(student().config, stage, communicator_.size(), at::elementSize(compute_type_),
                                          device_.is_cpu(), device_info(device_).memory_bytes),
        .validate_every = schedule.validate_every.value_or(config_.data.validation.every),
        .checkpoint_every = schedule.checkpoint_every.value_or(config_.checkpoint.every),
        .on_start = [&](const TrainableSplit& split) { record_tensors(stage, split); },
        .on_step = [&](const checkpoint::RunState& at, const StepReport& report) { log_->step(stage, at, report, flops); },
        .on_validation = [&](const checkpoint::RunState& at,
                             const LossReport& report) { log_->validation(stage, at, report); },
        .save = [&](const checkpoint::RunState& at, const io::NamedTensors& moments) { save(stage, at, moments); }};
    train_stage(job, state, next.checkpoint);
    return state;
  }

  void announce(const StageProgress& next, const checkpoint::RunState& state) {
    const std::string& name = next.stage->name;
    if (next.checkpoint) {
      log_info("stage ", name, ": resumed after step ", state.step, " of ", state.total_steps, " from ",
               next.checkpoint->dir.string(), ", with its optimizer state and schedule");
    } else {
      log_info("stage ", name, ": starts with a fresh optimizer and its own warm-up; ", state.total_steps, " steps of ",
               next.stage->schedule.global_batch, " rows of ", next.stage->schedule.context, " tokens");
    }
  }

  void load_teacher(const Stage& stage) {
    if (!stage.needs_teacher) {
      teacher_.reset();
    } else if (!teacher_) {
      teacher_ = model::load_model(config_.teacher, {device_, compute_type_, compute_type_});
    }
  }

  void record_tensors(const Stage& stage, const TrainableSplit& split) {
    on_first_rank([&] {
      log_info("stage ", stage.name, ": trains ", split.trained.size(), " tensors (", element_count(split.trained),
               " parameters), leaves ", split.frozen.size(), " (", element_count(split.frozen), ") unchanged");
      fs::create_directories(directory_.stage(stage.name));
      const Json lists = {{"trained", tensor_list(split.trained)}, {"frozen", tensor_list(split.frozen)}};
      write_file_atomic(directory_.stage(stage.name) / "tensors.json", lists.dump(1) + "\n");
    });
  }

  void save(const Stage& stage, const checkpoint::RunState& state, const io::NamedTensors& moments) {
    on_first_rank([&] {
      const fs::path root = directory_.stage(stage.name);
      const auto bytes = static_cast<std::uint64_t>(checkpoint_bytes(parameter_counts(student().config, stage)));
      checkpoint::require_space(root, bytes, "a checkpoint");
      const auto write_model = [&](const fs::path& dir) {
        model::save_model(student(), dir, {.dtype = "float32", .tokenizer_source = config_.teacher, .extra_files = {}});
      };
      const fs::path written = checkpoint::write_checkpoint(root, state, write_model, moments);
      checkpoint::prune(root, state.stage_done() ? 1 : config_.checkpoint.keep);
      log_info("saved ", written.string());
    });
  }

  void export_result(const Stage& stage) {
    const fs::path target = directory_.final_model(stage.name);
    on_first_rank([&] {
      if (!fs::exists(target)) {
        model::save_model(student(), target,
                          {.dtype = teacher_config_.base.dtype, .tokenizer_source = config_.teacher, .extra_files = {}});
        log_info("stage ", stage.name, " is done: ", target.string());
      }
    });
  }

  const RunConfig& config_;
  const TrainOptions& options_;
  dist::Communicator& communicator_;
  at::Device device_;
  RunDirectory directory_;
  at::ScalarType compute_type_;
  text::Tokenizer tokenizer_;
  model::ModelConfig teacher_config_;
  std::vector<Stage> stages_;
  fs::path source_;  // fp32 weights that the next stage starts from
  std::optional<model::Model> student_, teacher_;
  std::unique_ptr<RunLog> log_;
};

std::string stage_text(const RunConfig& config, const model::ModelConfig& hybrid, const Stage& stage, int ranks,
                       const at::Device& device) {
  const std::int64_t compute_bytes = at::elementSize(compute_type(config, device));
  const StageSchedule& schedule = stage.schedule;
  const ParameterCounts counts = parameter_counts(hybrid, stage);
  const std::int64_t micro_batch = choose_micro_batch(hybrid, stage, ranks, compute_bytes, device.is_cpu(),
                                                      device_info(device).memory_bytes);
  return detail::concat("stage ", stage.name, ": ", schedule.total_steps(), " steps of ", schedule.global_batch, " rows x ",
                        schedule.context, " tokens, micro-batch ", micro_batch, "\n  parameters ", counts.all, ", trained ",
                        counts.trained, ", frozen ", counts.all - counts.trained, "; checkpoint ",
                        checkpoint_bytes(counts) >> 20, " MiB\n",
                        memory_table(estimate_memory(hybrid, stage, micro_batch, compute_bytes)));
}

}  // namespace

void run_training(const RunConfig& config, const TrainOptions& options, dist::Communicator& communicator, const at::Device& device) {
  check_request(config, options, communicator.size());
  dist::require_same_on_all_ranks(communicator, "the config", resolved_yaml(config));
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
  TrainingRun(config, options, communicator, device).run();
}

std::string describe_run(const RunConfig& config, int ranks, const at::Device& device) {
  check_request(config, {}, ranks);
  const auto dir = io::HfModelDir::open(config.teacher);
  model::ModelConfig hybrid = model::read_model_config(dir);
  HYDRA_REQUIRE(!hybrid.plan, config.teacher.string(), ": found a hybrid checkpoint, expected a teacher");
  hybrid.hybrid = config.hybrid;
  hybrid.plan = choose_plan(config.heads, dir, hybrid.base, config.seed);
  std::string text = resolved_yaml(config) + "\n# What `train` would do with it (nothing was touched)\n";
  for (const Stage& stage : make_stages(config.stages, config.hybrid.fa.log_scale.mode, hybrid.base.vocab_size)) {
    text += stage_text(config, hybrid, stage, ranks, device);
  }
  return text;
}

}  // namespace hydra::train
