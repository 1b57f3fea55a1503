#include "run_evaluation.hpp"

#include <algorithm>
#include <fstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/data/rows.hpp"
#include "hydrahead/eval/report.hpp"

namespace hydra::train {
namespace {

// Of training alone, summed over the steps of metrics.jsonl: a run that was interrupted counts every step once.
eval::StageSpeed stage_speed(const fs::path& metrics, const Stage& stage) {
  eval::StageSpeed speed{.stage = stage.name, .context = stage.schedule.context};
  double flops_share = 0;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const Expected<Json> record = parse_json(line);
    if (!record || record->value("stage", "") != stage.name || !record->contains("step_ms")) {
      continue;
    }
    const double loss = (*record)["loss"].is_number() ? (*record)["loss"].get<double>() : 0.0;
    if (speed.steps++ == 0) {
      speed.first_loss = loss;
    }
    speed.last_loss = loss;
    speed.seconds += 1e-3 * (*record)["step_ms"].get<double>();
    speed.peak_memory =
        std::max(speed.peak_memory, static_cast<std::int64_t>((*record)["peak_memory_bytes"].get<double>()));
    speed.teraflops += (*record)["tflops"].get<double>();
    flops_share += (*record)["mfu"].get<double>();
  }
  if (speed.steps > 0) {
    speed.tokens = speed.steps * stage.schedule.tokens_per_step();
    speed.tokens_per_second = static_cast<double>(speed.tokens) / speed.seconds;
    speed.teraflops /= static_cast<double>(speed.steps);
    speed.mfu = flops_share / static_cast<double>(speed.steps);
  }
  return speed;
}

eval::StateResult state_beside(const std::string& name, const eval::BesideConfig& beside) {
  const fs::path dir = RunDirectory{beside.run}.evaluation(eval::phase_name(beside.phase));
  std::optional<eval::StateResult> state = eval::read_state(dir);
  HYDRA_REQUIRE(state.has_value(), "eval.beside.", name, ": found no finished evaluation in ", dir.string(),
                ", expected that of another run");
  state->name = name;
  return *std::move(state);
}

}  // namespace

RunEvaluation::RunEvaluation(const RunConfig& config, const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                             RunDirectory directory, dist::Communicator& communicator, const model::LoadOptions& load)
    : config_(config),
      tokenizer_(tokenizer),
      directory_(std::move(directory)),
      communicator_(communicator),
      load_(load) {
  for (const auto& [name, beside] : config.eval.beside) {
    static_cast<void>(state_beside(name, beside));  // a wrong path is found before anything is trained
  }
  if (config.eval.after.empty()) {
    return;
  }
  if (config.eval.niah) {
    corpora_ = data::load_corpora(config.eval.niah->haystack.string(), config.eval.niah->words.string());
  }
  if (config.eval.ppl) {
    data::ValidationConfig held = config.data.validation;
    held.path = config.eval.ppl->path.empty() ? held.path : config.eval.ppl->path;
    held.tokens = config.eval.ppl->tokens;
    HYDRA_REQUIRE(!held.path.empty(), "eval.ppl: found no text, expected eval.ppl.path or data.validation.path");
    ppl_rows_ = data::validation_rows(held, config.eval.ppl->context, config.data.packing, tokenizer, vocab_size);
  }
}

bool RunEvaluation::wanted(const std::string& phase) const {
  if (!config_.eval.niah && !config_.eval.ppl) {
    return false;
  }
  if (phase == "teacher") {
    return config_.eval.teacher && !config_.eval.after.empty();
  }
  return std::any_of(config_.eval.after.begin(), config_.eval.after.end(),
                     [&](eval::EvalPoint point) { return phase == eval::phase_name(point); });
}

void RunEvaluation::evaluate(const std::string& phase, const fs::path& dir) {
  if (!wanted(phase)) {
    return;
  }
  const auto source = io::HfModelDir::open(dir);
  const Json identity = {{"model_sha256", source.sha256()}, {"precision", at::toString(load_.compute_type)}};
  const eval::EvalInputs inputs{.config = config_.eval,
                                .tokenizer = tokenizer_,
                                .corpora = corpora_ ? &*corpora_ : nullptr,
                                .ppl_rows = &ppl_rows_,
                                .state_type = config_.cache.state_dtype};
  eval::evaluate_state(phase, model::load_model(source, load_), identity, inputs, directory_.evaluation(phase),
                       communicator_);
}

std::string write_report(const RunConfig& config, const RunDirectory& directory, const std::vector<Stage>& stages,
                         const std::vector<std::pair<std::string, std::string>>& facts) {
  eval::RunReport report;
  report.title = config.teacher.filename().string() + " to HydraHead";
  report.facts = facts;
  const model::ModelConfig hybrid = model::read_model_config(io::HfModelDir::open(directory.converted()));
  report.heads = hybrid.base.heads;
  for (const model::LayerPlan& layer : hybrid.plan->layers) {
    report.fa_heads.push_back(layer.fa_heads);
  }
  std::vector<std::string> phases{"teacher", "converted"};
  for (const Stage& stage : stages) {
    phases.push_back(stage.name);
    const eval::StageSpeed speed = stage_speed(directory.root / "metrics.jsonl", stage);
    if (speed.steps > 0) {
      report.stages.push_back(speed);
    }
  }
  for (const std::string& phase : phases) {
    if (auto state = eval::read_state(directory.evaluation(phase))) {
      report.states.push_back(std::move(*state));
    }
  }
  for (const auto& [name, beside] : config.eval.beside) {
    report.states.push_back(state_beside(name, beside));
  }
  report.config_yaml = resolved_yaml(config);
  eval::write_run_report(directory.root, report);
  return eval::run_report_tables(report);
}

}  // namespace hydra::train
