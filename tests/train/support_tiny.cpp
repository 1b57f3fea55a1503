#include "tests/train/support_tiny.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hydrahead/base/random.hpp"
#include "hydrahead/io/safetensors.hpp"

namespace hydra::train::test {

model::ModelConfig tiny_config(bool hybrid) {
  model::ModelConfig config;
  config.base.vocab_size = 101;
  config.base.hidden_size = 48;
  config.base.intermediate_size = 80;
  config.base.layers = 2;
  config.base.heads = 4;
  config.base.kv_heads = 2;
  config.base.head_dim = 16;
  config.base.max_position = 128;
  config.base.tie_word_embeddings = true;
  config.base.rope.theta = 10000.0;
  config.base.dtype = "float32";
  if (hybrid) {
    config.hybrid = model::HybridConfig{};
    config.plan = model::make_plan(config.base, {{0, 3}, {}}, "test");
  }
  return config;
}

model::Model tiny_model(bool hybrid, std::int64_t seed, at::ScalarType type) {
  return model::random_model(tiny_config(hybrid), {at::kCPU, type, type}, seed);
}

data::Row RandomRows::row(std::uint64_t index) const {
  RandomStream random(seed_, static_cast<std::uint32_t>(index));
  data::Row row;
  const std::uint32_t documents = 1 + random.below(3);
  for (std::uint32_t d = 0; d < documents; ++d) {
    const auto longest = static_cast<std::uint32_t>(context_ / documents);
    const std::int64_t length = 1 + random.below(longest);
    for (std::int64_t t = 0; t < length; ++t) {
      row.ids.push_back(static_cast<std::int32_t>(random.below(101)));
      row.labels.push_back(-1);
      if (t > 0) {
        row.labels[row.labels.size() - 2] = row.ids.back();
      }
    }
    row.lengths.push_back(length);
    row.documents.push_back("random:" + std::to_string(index) + "." + std::to_string(d));
  }
  return row;
}

StageSchedule tiny_schedule(std::int64_t steps, std::int64_t global_batch) {
  StageSchedule schedule;
  schedule.steps = steps;
  schedule.context = kContext;
  schedule.global_batch = global_batch;
  schedule.lr = {.peak = 3e-3, .final_rate = 1e-4, .schedule = optim::Schedule::cosine, .warmup = 3};
  return schedule;
}

std::vector<Stage> tiny_stages(std::int64_t steps, std::int64_t global_batch) {
  StagesConfig config;
  config.align.emplace().schedule = tiny_schedule(steps, global_batch);
  config.distill.emplace().schedule = tiny_schedule(steps, global_batch);
  config.long_context.emplace().schedule = tiny_schedule(steps, global_batch);
  return make_stages(config, model::LogScaleMode::stage3_and_inference, 101);
}

Trace run_stage(const Stage& stage, model::Model& student, model::Model* teacher, const data::RowSource& rows,
                dist::Communicator& communicator, const RunOptions& options,
                const std::optional<checkpoint::Checkpoint>& resume) {
  at::set_num_threads(1);  // tiny tensors: a pool of threads a rank only waits for itself
  Trace trace;
  checkpoint::RunState state;
  state.stage = stage.name;
  if (resume) {
    state = resume->state;
  }
  const StageJob job{.stage = stage,
                     .student = student,
                     .teacher = stage.needs_teacher ? teacher : nullptr,
                     .rows = rows,
                     .validation = options.validation,
                     .optimizer = options.optimizer,
                     .communicator = communicator,
                     .micro_batch = options.micro_batch,
                     .validate_every = options.validate_every,
                     .checkpoint_every = options.checkpoint_every,
                     .shard = options.shard,
                     .on_start = [&](const TrainableSplit& split) { trace.split = split; },
                     .on_step =
                         [&](const checkpoint::RunState& at, const StepReport& report) {
                           trace.losses.push_back(report.losses.loss);
                           trace.parts.push_back(report.losses.parts);
                           trace.documents.push_back(report.documents);
                           trace.norms.push_back(report.grad_norm);
                           trace.rates.push_back(report.rate);
                           if (options.after_step) {
                             options.after_step(at);
                           }
                         },
                     .on_validation = [&](const checkpoint::RunState&,
                                          const LossReport& report) { trace.validations.push_back(report); },
                     .save =
                         [&](const checkpoint::RunState& at, const StageWeights& weights) {
                           trace.saved.push_back(at);
                           if (!options.checkpoints.empty()) {
                             const auto write_model = [&](const std::filesystem::path& dir) {
                               model::save_model_part(student.config, dir, {.dtype = "float32"}, communicator.rank(),
                                                      communicator.size(), weights.weights);
                             };
                             checkpoint::write_checkpoint(options.checkpoints, at, write_model, weights.moments,
                                                          communicator);
                           }
                         }};
  train_stage(job, state, resume);
  return trace;
}

std::map<std::string, at::Tensor> snapshot(model::Model& model) {
  std::map<std::string, at::Tensor> copies;
  for (const model::Parameter& parameter : model::parameters(model)) {
    copies[parameter.name] = parameter.tensor->detach().clone();
  }
  return copies;
}

double max_difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  }
  return largest;
}

std::vector<data::Row> rows_of(const data::RowSource& source, std::uint64_t count) {
  std::vector<data::Row> rows;
  for (std::uint64_t i = 0; i < count; ++i) {
    rows.push_back(source.row(i));
  }
  return rows;
}

model::Model student_of(const checkpoint::Checkpoint& saved) {
  model::Model student = tiny_model(true, 99);
  const auto dir = io::HfModelDir::open(saved.model_dir());
  for (const model::Parameter& parameter : model::parameters(student)) {
    parameter.tensor->copy_(dir.load(parameter.name));
  }
  return student;
}

void expect_same(const StageRun& a, const StageRun& b, double losses, double parameters, const std::string& what) {
  const auto near = [&](double x, double y) { return std::abs(x - y) <= losses * std::max(1.0, std::abs(x)); };
  ASSERT_EQ(a.trace.losses.size(), b.trace.losses.size()) << what;
  for (std::size_t i = 0; i < a.trace.losses.size(); ++i) {
    EXPECT_TRUE(near(a.trace.losses[i], b.trace.losses[i]))
        << what << ", step " << i + 1 << ": " << a.trace.losses[i] << " and " << b.trace.losses[i];
  }
  ASSERT_EQ(a.trace.validations.size(), b.trace.validations.size()) << what;
  for (std::size_t i = 0; i < a.trace.validations.size(); ++i) {
    EXPECT_TRUE(near(a.trace.validations[i].loss, b.trace.validations[i].loss)) << what << ", validation " << i + 1;
  }
  EXPECT_LE(max_difference(a.parameters, b.parameters), parameters) << what;
}

StageRun run_ranks(const Stage& stage, const model::LoadOptions& types, int ranks, const data::RowSource& rows,
                   const RunOptions& options, const std::optional<checkpoint::Checkpoint>& resume) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<Trace> traces(count);
  std::vector<std::map<std::string, at::Tensor>> parameters(count);
  const auto body = [&](dist::Communicator& communicator) {
    model::Model teacher = model::random_model(tiny_config(false), types, 7);
    model::Model student = resume ? student_of(*resume) : model::random_model(tiny_config(true), types, 8);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    traces[rank] = run_stage(stage, student, &teacher, rows, communicator, options, resume);
    parameters[rank] = snapshot(student);
  };
  if (ranks == 1) {
    body(*dist::make_solo_communicator());
  } else {
    dist::run_thread_ranks(ranks, body);
  }
  StageRun result{traces[0], parameters[0], {}};
  result.documents.resize(traces[0].documents.size());
  for (std::size_t rank = 0; rank < count; ++rank) {
    EXPECT_EQ(max_difference(parameters[0], parameters[rank]), 0.0) << stage.name << ", rank " << rank;
    for (std::size_t step = 0; step < traces[rank].documents.size(); ++step) {
      for (const std::string& document : traces[rank].documents[step]) {
        EXPECT_TRUE(result.documents[step].insert(document).second) << document << " was read twice";
      }
    }
  }
  return result;
}

}  // namespace hydra::train::test
