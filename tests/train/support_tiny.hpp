#pragma once
// A tiny random teacher, its hybrid and rows of random tokens: whole stages run in seconds.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/trainer.hpp"

namespace hydra::train::test {

inline constexpr std::int64_t kContext = 24;

// 2 layers, 4 heads of 16 over 2 KV heads, hidden 48, 101 tokens. `hybrid`: FA heads {0, 3} and {} of the two layers.
model::ModelConfig tiny_config(bool hybrid);
model::Model tiny_model(bool hybrid, std::int64_t seed, at::ScalarType type = at::kFloat);

// Rows of `context` tokens or fewer, of one to three documents; a pure function of (seed, index).
class RandomRows : public data::RowSource {
 public:
  explicit RandomRows(std::uint64_t seed, std::int64_t context = kContext) : seed_(seed), context_(context) {}
  data::Row row(std::uint64_t index) const override;

 private:
  std::uint64_t seed_;
  std::int64_t context_;
};

StageSchedule tiny_schedule(std::int64_t steps, std::int64_t global_batch = 4);
std::vector<Stage> tiny_stages(std::int64_t steps, std::int64_t global_batch = 4);

// What a stage did, as the tests want to see it.
struct Trace {
  std::vector<double> losses, norms, rates;
  std::vector<std::vector<double>> parts;
  std::vector<std::vector<std::string>> documents;
  std::vector<LossReport> validations;
  std::vector<checkpoint::RunState> saved;
  TrainableSplit split;
};

struct RunOptions {
  std::int64_t micro_batch = 2;
  optim::OptimizerConfig optimizer;
  optim::Shard shard = optim::Shard::none;
  std::vector<data::Row> validation;
  std::int64_t validate_every = 0, checkpoint_every = 0;
  std::filesystem::path checkpoints;  // empty: nothing is written
  std::function<void(const checkpoint::RunState&)> after_step;
};

// Runs `stage` on the models in place, from `state` or anew.
Trace run_stage(const Stage& stage, model::Model& student, model::Model* teacher, const data::RowSource& rows,
                dist::Communicator& communicator, const RunOptions& options = {},
                const std::optional<checkpoint::Checkpoint>& resume = std::nullopt);

// Copies of all parameters by name.
std::map<std::string, at::Tensor> snapshot(model::Model& model);
double max_difference(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b);

std::vector<data::Row> rows_of(const data::RowSource& source, std::uint64_t count);

// The tiny student with the weights of a checkpoint.
model::Model student_of(const checkpoint::Checkpoint& saved);

struct StageRun {
  Trace trace;                                   // rank 0's
  std::map<std::string, at::Tensor> parameters;  // the same on all ranks
  std::vector<std::set<std::string>> documents;  // of each step, of all ranks
};

// Largest differences of the losses (validation included; of values above 1: relative) and of the parameters.
void expect_same(const StageRun& a, const StageRun& b, double losses, double parameters, const std::string& what);

// One stage with `ranks` threads, each with tiny models of its own (teacher 7, student 8, or the checkpoint's).
StageRun run_ranks(const Stage& stage, const model::LoadOptions& types, int ranks, const data::RowSource& rows,
                   const RunOptions& options, const std::optional<checkpoint::Checkpoint>& resume = std::nullopt);

}  // namespace hydra::train::test
