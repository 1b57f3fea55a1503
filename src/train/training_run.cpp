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
#include "hydrahead/train/rank_agreement.hpp"
#include "hydrahead/train/run_log.hpp"
#include "run_evaluation.hpp"
#include "run_request.hpp"
#include "run_stages.hpp"

namespace hydra::train {
namespace {

// Rows of one stage are drawn apart from those of another.
std::uint64_t row_seed(const RunConfig& config, const Stage& stage) {
  const std::uint64_t number = stage.name == "align" ? 1 : stage.name == "distill" ? 2 : 3;
  return static_cast<std::uint64_t>(config.seed) + (number << 32);
}

struct StageData {
  std::unique_ptr<data::RowSource> rows;
  std::vector<data::Row> validation;
  std::int64_t micro_batch = 1;
};

class TrainingRun {
 public:
  TrainingRun(const RunConfig& config, const TrainOptions& options, dist::Communicator& communicator,
              const at::Device& device)
      : config_(config),
        options_(options),
        communicator_(communicator),
        device_(device),
        directory_{config.run_dir},
        compute_type_(compute_type(config, device)),
        tokenizer_(text::Tokenizer::load(config.teacher)),
        hybrid_config_(planned_hybrid(config)),
        teacher_config_{hybrid_config_.base, std::nullopt, std::nullopt},
        stages_(make_stages(config.stages, config.hybrid.fa.log_scale.mode, tokenizer_.id_limit())) {}

  std::string run() {
    check_run_directory(config_, options_.resume, options_.only_stage);
    progress_ = find_progress(config_, options_, directory_, stages_);
    claim_ = dist::claim_for_job(communicator_, directory_.root);
    prepare();
    begin();
    evaluation_->evaluate("teacher", config_.teacher);
    evaluation_->evaluate("converted", directory_.converted());

    open_log();
    source_ = directory_.converted();
    std::optional<checkpoint::RunState> before;
    for (const StageProgress& next : progress_) {
      if (next.checkpoint) {
        source_ = next.checkpoint->model_dir();
        student_.reset();
      }
      before = next.done() ? next.checkpoint->state : train(next, before);
      export_result(*next.stage);
      poll_signal("stage " + next.stage->name);
      evaluation_->evaluate(next.stage->name, directory_.final_model(next.stage->name));
    }
    log_->finish();
    std::string tables;
    on_first_rank([&] { tables = write_report(config_, directory_, stages_, facts()); });
    return tables;
  }

 private:
  // What fails there ends all ranks.
  void on_first_rank(const std::function<void()>& action) {
    dist::run_together(communicator_, [&] {
      if (communicator_.rank() == 0) {
        action();
      }
    });
  }

  void poll_signal(const std::string& after) {
    if (dist::any_rank(communicator_, stop_requested())) {
      throw Interrupted("stopped by a signal after " + after + "; --resume continues");
    }
  }

  // Everything that can be refused, before anything is written: data, evaluation texts, micro-batches, disk space. Rank
  // 0 goes first, since it fills the cache of tokenized text.
  void prepare() {
    const auto load = [&] {
      for (const StageProgress& next : progress_) {
        if (!next.done()) {
          data_[next.stage->name] = stage_data(*next.stage);
        }
      }
      evaluation_.emplace(config_, tokenizer_, teacher_config_.base.vocab_size, directory_, communicator_,
                          model::LoadOptions{device_, compute_type_, compute_type_});
    };
    on_first_rank([&] {
      load();
      require_disk_space();
    });
    dist::run_together(communicator_, [&] {
      if (communicator_.rank() != 0) {
        load();
      }
    });
    for (const auto& [name, data] : data_) {
      const StageSchedule& schedule = stage_named(name).schedule;
      const auto rows = static_cast<std::uint64_t>(schedule.total_steps() * schedule.global_batch);
      require_same_rows(communicator_, "stage " + name, *data.rows, rows, data.validation);
      dist::require_same_on_all_ranks(communicator_, "the micro-batch of stage " + name,
                                      std::to_string(data.micro_batch));
    }
  }

  const Stage& stage_named(const std::string& name) const {
    return *std::find_if(stages_.begin(), stages_.end(), [&](const Stage& stage) { return stage.name == name; });
  }

  StageData stage_data(const Stage& stage) {
    const StageSchedule& schedule = stage.schedule;
    const data::Packing packing = schedule.packing.value_or(config_.data.packing);
    const std::int64_t vocabulary = teacher_config_.base.vocab_size;
    return {data::make_rows(config_.data, schedule.context, packing, tokenizer_, vocabulary, row_seed(config_, stage)),
            data::validation_rows(config_.data.validation, schedule.context, packing, tokenizer_, vocabulary),
            choose_micro_batch(hybrid_config_, stage, {config_.parallel.shard, communicator_.size()},
                               at::elementSize(compute_type_), device_.is_cpu(), device_info(device_).memory_bytes)};
  }

  // What is still to be written: of each stage the last checkpoint's weights and the exported result (fp32 at most),
  // and the checkpoints that stand at a time, but for those that are there already.
  void require_disk_space() {
    std::int64_t bytes = 0, largest = 0, copies = config_.checkpoint.keep + 1;
    for (const StageProgress& next : progress_) {
      if (next.done()) {
        continue;
      }
      const ParameterCounts counts = parameter_counts(hybrid_config_, *next.stage);
      bytes += 4 * counts.all + 4 * counts.all;
      largest = std::max(largest, checkpoint_bytes(counts));
      copies = next.checkpoint ? 1 : copies;
    }
    checkpoint::require_space(directory_.root, static_cast<std::uint64_t>(bytes + copies * largest),
                              "this run (checkpoints and results)");
  }

  // Makes the directory a run's, tidies up after interrupted saves, and converts the teacher if that is not done.
  void begin() {
    on_first_rank([&] {
      write_file_atomic(directory_.config_file(), resolved_yaml(config_));
      for (const StageProgress& next : progress_) {
        const std::int64_t step = next.checkpoint ? next.checkpoint->state.step : 0;
        for (const std::string& done : checkpoint::set_aside_after(directory_.stage(next.stage->name), step)) {
          log_warning(done);
        }
      }
      if (!fs::exists(directory_.converted())) {
        try {
          run_conversion(config_, directory_.converted());
        } catch (...) {  // nothing was made: the directory is no run yet
          fs::remove(directory_.config_file());
          throw;
        }
      }
    });
    poll_signal("the conversion");
  }

  void open_log() {
    std::int64_t last_step = 0, done = 0, total = 0;
    for (const StageProgress& each : progress_) {
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
    on_first_rank([&] {
      announce(next, state);
      // An end that is not this run's any more.
      fs::remove_all(directory_.final_model(stage.name));
      fs::remove_all(directory_.evaluation(stage.name));
    });
    load_teacher(stage);
    require_same_tensors(communicator_, "the student", model::parameters(student()));
    if (stage.needs_teacher) {
      require_same_tensors(communicator_, "the teacher", model::parameters(*teacher_));
    }
    const StageData& data = data_.at(stage.name);
    const double flops = stage.flops_per_token(flops_shape(student().config), flops_shape(teacher_config_));
    const StageJob job{
        .stage = stage,
        .student = student(),
        .teacher = stage.needs_teacher ? &*teacher_ : nullptr,
        .rows = *data.rows,
        .validation = data.validation,
        .optimizer = config_.optimizer,
        .communicator = communicator_,
        .micro_batch = data.micro_batch,
        .validate_every = schedule.validate_every.value_or(config_.data.validation.every),
        .checkpoint_every = schedule.checkpoint_every.value_or(config_.checkpoint.every),
        .shard = config_.parallel.shard,
        .on_start = [&](const TrainableSplit& split) { record_tensors(stage, split); },
        .on_step = [&](const checkpoint::RunState& at,
                       const StepReport& report) { log_->step(stage, at, report, flops); },
        .on_validation = [&](const checkpoint::RunState& at,
                             const LossReport& report) { log_->validation(stage, at, report); },
        .save = [&](const checkpoint::RunState& at, const StageWeights& weights) { save(stage, at, weights); }};
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

  void save(const Stage& stage, const checkpoint::RunState& state, const StageWeights& weights) {
    const fs::path root = directory_.stage(stage.name);
    on_first_rank([&] {
      const auto bytes = static_cast<std::uint64_t>(checkpoint_bytes(parameter_counts(hybrid_config_, stage)));
      checkpoint::require_space(root, bytes, "a checkpoint");
    });
    const auto write_model = [&](const fs::path& dir) {
      model::save_model_part(student().config, dir,
                             {.dtype = "float32", .tokenizer_source = config_.teacher, .extra_files = {}},
                             communicator_.rank(), communicator_.size(), weights.weights);
    };
    const fs::path written = checkpoint::write_checkpoint(root, state, write_model, weights.moments, communicator_);
    on_first_rank([&] {
      checkpoint::prune(root, state.stage_done() ? 1 : config_.checkpoint.keep);
      log_info("saved ", written.string());
    });
  }

  void export_result(const Stage& stage) {
    const fs::path target = directory_.final_model(stage.name);
    on_first_rank([&] {
      if (!fs::exists(target)) {
        model::save_model(
            student(), target,
            {.dtype = teacher_config_.base.dtype, .tokenizer_source = config_.teacher, .extra_files = {}});
        log_info("stage ", stage.name, " is done: ", target.string());
      }
    });
  }

  std::vector<std::pair<std::string, std::string>> facts() {
    std::string synthetic;
    for (const auto& [name, source] : config_.data.sources) {
      if (source.synthetic != data::Synthetic::none) {
        synthetic += (synthetic.empty() ? "" : ", ") + name;
      }
    }
    return {{"teacher", config_.teacher.string()},
            {"device", device_info(device_).name},
            {"ranks", std::to_string(communicator_.size())},
            {"precision", at::toString(compute_type_)},
            {"seed", std::to_string(config_.seed)},
            {"trained on samples like those of the evaluation", synthetic.empty() ? "no" : "yes: " + synthetic},
            {"versions", options_.versions}};
  }

  const RunConfig& config_;
  const TrainOptions& options_;
  dist::Communicator& communicator_;
  at::Device device_;
  RunDirectory directory_;
  std::unique_ptr<DirectoryClaim> claim_;  // removes the directory again if nothing was made in it
  at::ScalarType compute_type_;
  text::Tokenizer tokenizer_;
  model::ModelConfig hybrid_config_, teacher_config_;
  std::vector<Stage> stages_;
  std::vector<StageProgress> progress_;
  std::map<std::string, StageData> data_;  // of the stages that are not done
  std::optional<RunEvaluation> evaluation_;
  fs::path source_;  // fp32 weights that the next stage starts from
  std::optional<model::Model> student_, teacher_;
  std::unique_ptr<RunLog> log_;
};

}  // namespace

std::string run_training(const RunConfig& config, const TrainOptions& options, dist::Communicator& communicator,
                         const at::Device& device) {
  require_same_job(communicator, config);
  check_request(config, options, communicator.size());
  at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
  return TrainingRun(config, options, communicator, device).run();
}

}  // namespace hydra::train
