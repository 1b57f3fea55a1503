#include "stage_training.hpp"

#include <ATen/ATen.h>

namespace hydra::train {
namespace {

// Matrices decay; norms, biases, gamma, A_log and dt_bias do not, and the model reads them in fp32, as it does the taps
// of short convolutions.
std::vector<optim::TrainedParameter> trained_parameters(const StageJob& job, const TrainableSplit& split) {
  std::vector<optim::TrainedParameter> result;
  const optim::LrScale& scale = job.stage.schedule.lr.scale;
  for (const model::Parameter& parameter : split.trained) {
    const bool matrix = parameter.tensor->dim() >= 2;
    const bool taps = parameter.name.find("conv1d") != std::string::npos;
    const bool head = parameter.tensor == &job.student.head;
    result.push_back({.name = parameter.name,
                      .tensor = parameter.tensor,
                      .layer = head ? job.student.config.base.layers : parameter.layer,
                      .decay = matrix,
                      .rate_scale = parameter.attention ? scale.attention : scale.base,
                      .read_as_master = !matrix || taps});
  }
  return result;
}

// A tied head is the embedding: to be called when that has become another tensor.
void tie_head(model::Model& student) {
  if (student.config.base.tie_word_embeddings) {
    student.head = student.embed;
  }
}

}  // namespace

StageTraining::StageTraining(const StageJob& job, const TrainableSplit& split)
    : student(job.student),
      parameters(trained_parameters(job, split), student.compute_type, job.shard != optim::Shard::none,
                 job.communicator),
      gradients(parameters, job.shard == optim::Shard::gradients, job.stage.layer_losses, job.communicator),
      optimizer(parameters, job.optimizer) {
  tie_head(student);
  if (job.communicator.size() == 1) {
    return;
  }
  student.hooks.before_forward = [this](std::int64_t layer) { parameters.wait_for(layer); };
  // Autograd has one thread a GPU: if it waited there for a rank of this process, that rank's backward pass could not
  // run.
  if (!(student.embed.is_cuda() && job.communicator.start_blocks())) {
    student.hooks.after_backward = [this](std::int64_t layer) { gradients.layer_done(layer); };
  }
}

void StageTraining::update(const optim::GradientCheck& check, double rate) {
  optimizer.begin_step(check);
  for (std::size_t unit = 0; unit < parameters.units().size(); ++unit) {
    optimizer.update(unit, gradients.of_master(unit), rate, check);
    parameters.publish(unit);
  }
}

void StageTraining::finish() {
  parameters.restore();
  tie_head(student);
}

}  // namespace hydra::train
