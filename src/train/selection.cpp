#include "hydrahead/train/selection.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/select/analysis.hpp"
#include "hydrahead/select/knockout.hpp"
#include "hydrahead/select/probes.hpp"
#include "hydrahead/select/score_report.hpp"
#include "hydrahead/select/scoring.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "hydrahead/train/conversion.hpp"

namespace hydra::train {
namespace {

using Pairs = std::vector<data::CounterfactualPair>;

// Every token of every pair and what is read out: texts, tokenizer, seed and probes all show in it.
std::string sha256_of(const Pairs& pairs) {
  Sha256 hash;
  for (const data::CounterfactualPair& pair : pairs) {
    hash.update(
        Json{pair.id, pair.clean, pair.corrupt, pair.rows, pair.answer, pair.distractor, pair.sources, pair.answer_size}
            .dump());
  }
  return hash.hex();
}

// What changes the effects on a pair; weights, threshold and rounds come after.
Json pair_settings(const select::SelectConfig& config, const Pairs& pairs, const Json& identity) {
  Json settings = identity;
  settings["pairs_sha256"] = sha256_of(pairs);
  settings["method"] = select::method_name(config.method);
  settings["direction"] = config.direction == select::Direction::noising ? "noising" : "denoising";
  settings["metric"] = config.metric == select::Metric::logit_diff ? "logit_diff" : "prob";
  settings["decay"] = config.decay;
  settings["min_margin"] = config.min_margin;
  std::string paths;
  for (const select::SenderPath path : config.sender_paths) {
    paths += path == select::SenderPath::q ? 'q' : path == select::SenderPath::k ? 'k' : 'v';
  }
  std::sort(paths.begin(), paths.end());
  settings["senders"] = config.sender_rounds > 0 ? paths : "none";
  return settings;
}

void log_memory(const select::SelectConfig& config, const Pairs& pairs, const model::Qwen3Config& base,
                at::ScalarType type) {
  std::size_t tokens = 0, rows = 0;
  for (const data::CounterfactualPair& pair : pairs) {
    tokens = std::max(tokens, pair.clean.size());
    rows = std::max(rows, pair.rows.size());
  }
  const auto memory =
      select::scoring_memory(base, config, static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(rows),
                             static_cast<std::int64_t>(at::elementSize(type)));
  log_info("select: ", pairs.size(), " pairs of at most ", tokens, " tokens; beside the model about ",
           memory.device >> 20, " MiB at the peak, and ", (memory.disk_of_a_pair >> 20) * pairs.size(),
           " MiB on disk until the end");
}

model::HeadScores head_scores(const select::FusedScores& fused, const std::string& teacher_sha256,
                              const select::SelectConfig& config) {
  model::HeadScores scores{
      .teacher_sha256 = teacher_sha256, .method = select::method_name(config.method), .layers = {}};
  for (std::int64_t layer = 0; layer < fused.score.size(0); ++layer) {
    scores.layers.emplace_back();
    for (std::int64_t head = 0; head < fused.score.size(1); ++head) {
      scores.layers.back().push_back({.score = fused.score[layer][head].item<double>(),
                                      .effect = fused.effect[layer][head].item<double>(),
                                      .attribution = fused.attribution[layer][head].item<double>()});
    }
  }
  return scores;
}

at::Tensor score_matrix(const model::HeadScores& scores) {
  std::vector<at::Tensor> rows;
  for (const auto& layer : scores.layers) {
    std::vector<double> values;
    for (const model::HeadScore& head : layer) {
      values.push_back(head.score);
    }
    rows.push_back(at::tensor(values, at::kDouble));
  }
  return at::stack(rows);
}

// The first pair of every probe: what the heads do on the very text that they are scored on.
std::vector<std::vector<std::int32_t>> texts_to_analyse(const Pairs& pairs) {
  std::vector<std::vector<std::int32_t>> texts;
  std::string last;
  for (const data::CounterfactualPair& pair : pairs) {
    if (pair.probe != last) {
      texts.push_back(pair.clean);
    }
    last = pair.probe;
  }
  return texts;
}

// Work that is kept until the selection is complete.
fs::path pairs_of(const SelectionOptions& options) { return options.out / "pairs"; }
fs::path points_of(const SelectionOptions& options) { return options.out / "knockout-points"; }

void require_output(const SelectionOptions& options) {
  const fs::path& out = options.out;
  HYDRA_REQUIRE(!out.empty(), "--out: found nothing, expected a directory");
  const bool complete = fs::exists(out / "scores.json");
  const bool scoring_stopped = !complete && fs::exists(pairs_of(options) / "settings.json");
  const bool check_stopped = !complete && fs::exists(points_of(options) / "settings.json");
  HYDRA_REQUIRE(!scoring_stopped || options.scores.empty(), out.string(),
                ": holds a selection that was stopped; expected a new or empty directory for one from --scores");
  HYDRA_REQUIRE(!check_stopped || scoring_stopped || !options.scores.empty(), out.string(),
                ": holds a selection from --scores that was stopped; expected the same command, or a new or empty "
                "directory");
  HYDRA_REQUIRE(!fs::exists(out) || (fs::is_directory(out) && (fs::is_empty(out) || scoring_stopped || check_stopped)),
                out.string(),
                ": already holds something; expected a new or empty directory, or one of a selection that was stopped");
}

// Heads of the config, or of the method's default rule; a wrong budget is refused before anything is scored.
model::HeadsConfig requested_heads(const RunConfig& config, const model::Qwen3Config& base) {
  model::HeadsConfig heads = config.heads;
  heads.plan.clear();
  heads.rule = heads.rule_given ? heads.rule : model::HeadRule::global_interp_c;
  model::HeadScores blank;
  blank.layers.assign(static_cast<std::size_t>(base.layers),
                      std::vector<model::HeadScore>(static_cast<std::size_t>(base.heads)));
  static_cast<void>(model::plan_by_rule(heads, base, config.seed, &blank));
  return heads;
}

std::map<std::string, double> weights_of(const select::CapabilityWeights& weights) {
  return {{"single", weights.single}, {"multi", weights.multi}, {"general", weights.general}};
}

void require_sender_paths(const select::SelectConfig& settings) {
  const bool senders = settings.method == select::Method::interp && settings.sender_rounds > 0;
  HYDRA_REQUIRE(!senders || !settings.sender_paths.empty(),
                "select.sender_paths: found an empty list, expected q, k or v (or select.sender_rounds: 0)");
}

// What would only fail when all pairs are scored.
void require_weight(const Pairs& pairs, const select::CapabilityWeights& weights) {
  const auto counts = [&, of = weights_of(weights)](const auto& pair) { return of.at(pair.capability) > 0; };
  HYDRA_REQUIRE(std::any_of(pairs.begin(), pairs.end(), counts),
                "select.weights: every capability that has probes weighs 0; expected one above 0");
}

// Fills in what scoring finds.
void score(select::ScoreReport& report, const select::SelectConfig& settings, const model::Model& teacher,
           const Pairs& pairs, const SelectionOptions& options, const std::string& teacher_sha256,
           dist::Communicator& communicator) {
  log_memory(settings, pairs, teacher.config.base, teacher.compute_type);
  report.settings = pair_settings(settings, pairs, options.identity);
  report.probes = select::score_heads(teacher, pairs, settings, pairs_of(options), report.settings, communicator);
  report.settings["threshold"] = settings.threshold;
  report.settings["sender_rounds"] = settings.sender_rounds;
  report.settings["min_kept"] = settings.min_kept;
  try {
    report.fused = select::fuse(report.probes, weights_of(settings.weights), settings.threshold);
  } catch (const UserError&) {  // a refusal leaves nothing behind
    if (communicator.rank() == 0) {
      fs::remove_all(pairs_of(options));
    }
    throw;
  }
  report.scores = head_scores(report.fused, teacher_sha256, settings);
}

}  // namespace

std::string run_selection(const RunConfig& config, const io::HfModelDir& dir, const model::LoadOptions& load,
                          const SelectionOptions& options, dist::Communicator& communicator) {
  const select::SelectConfig& settings = config.select;
  const model::ModelConfig teacher_config = model::read_model_config(dir);
  HYDRA_REQUIRE(!teacher_config.plan, options.model_name,
                ": found a hybrid checkpoint (model_type hydrahead), expected a teacher: its heads are scored before "
                "conversion");
  const model::Qwen3Config& base = teacher_config.base;
  dist::run_together(communicator, [&] { require_output(options); });
  const auto claim = dist::claim_for_job(communicator, options.out);
  const model::HeadsConfig heads = requested_heads(config, base);
  const bool scored_before = !options.scores.empty();
  const std::string sha256 = dir.sha256();
  select::ScoreReport report{
      .model_name = options.model_name, .settings = {}, .probes = {}, .fused = {}, .scores = {}, .plan = {}};
  if (scored_before) {
    report.scores = model::read_scores(options.scores, base, sha256);
  }

  if (options.knockout) {
    static_cast<void>(select::knockout_counts(settings.knockout.counts, base.layers * base.heads));
  }
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model_name);
  HYDRA_REQUIRE(tokenizer.id_limit() <= base.vocab_size, options.model_name, ": tokenizer.json: found ids up to ",
                tokenizer.id_limit() - 1, ", expected ones below the model's vocabulary size ", base.vocab_size);
  const eval::NiahConfig niah = config.eval.niah.value_or(eval::NiahConfig{});
  const data::Corpora corpora = data::load_corpora(niah.haystack.string(), niah.words.string());
  const std::int64_t context = std::min(settings.context, base.max_position);
  Pairs pairs;
  if (!scored_before || options.analyse) {
    pairs =
        select::make_pairs(settings, base.max_position, static_cast<std::uint64_t>(config.seed), corpora, tokenizer);
  }
  if (!scored_before) {
    require_sender_paths(settings);
    require_weight(pairs, settings.weights);
  }
  std::optional<model::Model> teacher;
  if (!scored_before || options.knockout || options.analyse) {
    teacher = model::load_model(dir, load);
  }
  if (!scored_before) {
    score(report, settings, *teacher, pairs, options, sha256, communicator);
  }
  report.plan = model::plan_by_rule(heads, base, config.seed, &report.scores);
  report.plan.teacher_sha256 = sha256;
  std::optional<select::Knockout> knockout;
  if (options.knockout) {
    knockout = select::knockout_curves(*teacher, model::ranking(report.scores), settings.knockout, context, corpora,
                                       tokenizer, points_of(options), options.identity, communicator);
  }
  if (communicator.rank() != 0) {
    return "";
  }
  if (options.analyse) {
    const auto texts = texts_to_analyse(pairs);
    select::write_analysis(options.out, options.model_name, detail::concat(texts.size(), " probes"),
                           select::analyse_heads(*teacher, texts), score_matrix(report.scores));
  }
  if (knockout) {
    select::write_knockout(options.out, *knockout);
  }
  model::write_plan(options.out / "heads.yaml", report.plan);
  std::string text = select::write_score_report(options.out, report);
  if (knockout) {
    text.append("\n").append(select::knockout_table(*knockout));
  }
  fs::remove_all(pairs_of(options));
  fs::remove_all(points_of(options));
  return text;
}

}  // namespace hydra::train
