#include "hydrahead/select/knockout.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/eval/evaluate.hpp"
#include "hydrahead/eval/score.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "hydrahead/model/zero_heads.hpp"
#include "work_directory.hpp"

namespace hydra::select {
namespace {

constexpr std::uint32_t random_stream = 0x6b6e6f63;  // "knoc"
constexpr std::int64_t spare_tokens = 16;  // a model that finds the answer says it at once; one that does not rambles

struct Questions {
  std::vector<std::string> tasks;
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::vector<std::string>> references;
  std::vector<std::int64_t> budgets;
};

Questions make_questions(const KnockoutConfig& config, std::int64_t context, const data::Corpora& corpora,
                         const text::Tokenizer& tokenizer) {
  data::NiahOptions options;
  options.seed = static_cast<std::uint64_t>(config.seed);
  const data::NiahBuilder builder(corpora, tokenizer, options);
  Questions questions;
  std::string reasons;
  for (const data::NiahTask task : config.tasks) {
    if (const auto reason = builder.unfit_reason(task, context, config.samples)) {
      log_warning("knockout: ", *reason, "; left out");
      reasons += (reasons.empty() ? "" : "; ") + *reason;
      continue;
    }
    questions.tasks.emplace_back(data::task_name(task));
    for (std::int64_t index = 0; index < config.samples; ++index) {
      data::NiahSample sample = builder.sample(task, context, index);
      std::string answer;
      for (const std::string& reference : sample.references) {
        answer += " " + reference;
      }
      const auto length = static_cast<std::int64_t>(tokenizer.encode(answer).size());
      questions.budgets.push_back(std::min(sample.budget, length + spare_tokens));
      questions.prompts.push_back(std::move(sample.ids));
      questions.references.push_back(std::move(sample.references));
    }
  }
  HYDRA_REQUIRE(!questions.prompts.empty(), "select.knockout.tasks: no task fits ", context, " tokens: ", reasons);
  return questions;
}

double accuracy(const model::Model& model, const Questions& questions, const text::Tokenizer& tokenizer,
                std::int64_t context) {
  const eval::Generate generate = eval::model_generator(model, model::StateType::fp32);
  const std::int64_t batch_tokens = eval::default_batch_tokens(
      model.embed.device(), eval::cache_use(model.config, model.compute_type, model::StateType::fp32));
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(1, batch_tokens / context));
  double sum = 0;
  for (std::size_t first = 0; first < questions.prompts.size(); first += batch) {
    const std::size_t last = std::min(first + batch, questions.prompts.size());
    const auto part = [&](const auto& all) {
      using List = std::decay_t<decltype(all)>;
      return List(all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last));
    };
    const auto answers = generate(part(questions.prompts), part(questions.budgets));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::string text = eval::postprocess(tokenizer.decode(answers[i], true));
      sum += eval::score_sample(text, questions.references[first + i]).score;
    }
  }
  return sum / static_cast<double>(questions.prompts.size());
}

void require_ranking(const std::vector<LayerHead>& ranking, const model::Qwen3Config& base) {
  const std::set<LayerHead> distinct(ranking.begin(), ranking.end());
  HYDRA_CHECK(static_cast<std::int64_t>(ranking.size()) == base.layers * base.heads &&
                  distinct.size() == ranking.size() && distinct.begin()->first >= 0 &&
                  distinct.rbegin()->first < base.layers,
              "a ranking holds every head once");
}

model::Model without_first(const model::Model& teacher, const std::vector<LayerHead>& order, std::int64_t count) {
  std::vector<std::vector<std::int64_t>> heads(teacher.layers.size());
  for (std::int64_t i = 0; i < count; ++i) {
    heads[order[i].first].push_back(order[i].second);
  }
  return model::with_heads_zeroed(teacher, heads);
}

// What a point's accuracy depends on, beside its order and count.
Json point_settings(Json identity, const std::vector<LayerHead>& ranking, const Questions& questions) {
  identity["ranking_sha256"] = sha256_hex(Json(ranking).dump());
  identity["samples_sha256"] = sha256_hex(Json{questions.prompts, questions.references, questions.budgets}.dump());
  return identity;
}

fs::path point_file(const fs::path& dir, const std::string& order, std::int64_t count) {
  std::string name = order;
  std::replace(name.begin(), name.end(), ' ', '-');
  std::erase(name, ',');
  return dir / detail::concat(name, "-", count, ".json");
}

}  // namespace

std::vector<std::int64_t> knockout_counts(const std::vector<std::int64_t>& asked, std::int64_t heads) {
  std::set<std::int64_t> counts(asked.begin(), asked.end());
  if (asked.empty()) {
    counts = {0, 1, 3};
    for (std::int64_t power = 2; power <= heads / 2; power *= 2) {
      counts.insert({power, power + power / 2});
    }
  }
  const std::int64_t most = asked.empty() ? heads / 2 : heads;
  for (const std::int64_t count : asked) {
    HYDRA_REQUIRE(count <= heads, "select.knockout.counts: found ", count, ", expected at most the ", heads,
                  " heads of the model");
  }
  counts.erase(counts.upper_bound(most), counts.end());
  return {counts.begin(), counts.end()};
}

Knockout knockout_curves(const model::Model& teacher, const std::vector<LayerHead>& ranking,
                         const KnockoutConfig& config, std::int64_t context, const data::Corpora& corpora,
                         const text::Tokenizer& tokenizer, const fs::path& work_dir, const Json& identity,
                         dist::Communicator& communicator) {
  require_ranking(ranking, teacher.config.base);
  const Questions questions = make_questions(config, context, corpora, tokenizer);
  open_work_directory(work_dir, point_settings(identity, ranking, questions), communicator);
  Knockout knockout{.heads = static_cast<std::int64_t>(ranking.size()),
                    .context = context,
                    .samples = static_cast<std::int64_t>(questions.prompts.size()),
                    .tasks = questions.tasks,
                    .counts = knockout_counts(config.counts, static_cast<std::int64_t>(ranking.size())),
                    .curves = {}};
  std::vector<std::pair<std::string, std::vector<LayerHead>>> orders = {{"score order", ranking},
                                                                        {"reverse order", ranking}};
  std::reverse(orders.back().second.begin(), orders.back().second.end());
  for (std::int64_t seed = 0; seed < config.random_orders; ++seed) {
    std::vector<LayerHead> order = ranking;
    std::sort(order.begin(), order.end());  // the draw does not depend on the ranking
    RandomStream(static_cast<std::uint64_t>(seed), random_stream).shuffle(order);
    orders.emplace_back(detail::concat("random order, seed ", seed), std::move(order));
  }

  const auto points = static_cast<std::int64_t>(knockout.counts.size());
  const auto total = static_cast<std::int64_t>(orders.size()) * points;
  at::Tensor found = at::zeros({total}, teacher.embed.options().dtype(at::kDouble));
  std::optional<metrics::Progress> progress;
  if (communicator.rank() == 0) {
    progress.emplace(metrics::ProgressOptions{.title = "knockout", .unit = "points", .total = total});
  }
  dist::run_together(communicator, [&] {
    for (std::int64_t i = communicator.rank(); i < total; i += communicator.size()) {
      const auto& [name, order] = orders[i / points];
      const std::int64_t count = knockout.counts[i % points];
      const bool known = count == 0 && i >= points;  // nothing removed: the same for every order
      const fs::path file = point_file(work_dir, name, count);
      if (!known && fs::exists(file)) {
        found[i] = read_json_file(file.string()).get<double>();
      } else if (!known) {
        const double value = accuracy(without_first(teacher, order, count), questions, tokenizer, context);
        write_file_atomic(file, Json(value).dump() + "\n");
        found[i] = value;
      }
      if (progress) {
        progress->update(i + 1, detail::concat(name, ", ", count, " heads removed"));
      }
    }
  });
  if (progress) {
    progress->finish();
  }
  communicator.all_reduce_sum(found);
  const at::Tensor host = found.to(at::kCPU);
  const double* values = host.const_data_ptr<double>();
  for (std::size_t c = 0; c < orders.size(); ++c) {
    KnockoutCurve curve{.name = orders[c].first, .accuracy = {values + c * points, values + (c + 1) * points}};
    if (knockout.counts.front() == 0) {
      curve.accuracy.front() = values[0];
    }
    knockout.curves.push_back(std::move(curve));
  }
  return knockout;
}

}  // namespace hydra::select
