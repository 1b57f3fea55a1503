#include "hydrahead/eval/perplexity_run.hpp"

#include <algorithm>
#include <cmath>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/eval/record_store.hpp"
#include "hydrahead/metrics/line_chart_svg.hpp"

namespace hydra::eval {
namespace {

std::string chart(const std::vector<PplResult>& results) {
  metrics::LineChart chart{.title = "loss by position",
                           .x_name = "position in the text (tokens)",
                           .y_name = "nats a token",
                           .x_labels = {},
                           .series = {}};
  for (const PplBucket& bucket : results.front().buckets) {  // the same rows, so the same buckets everywhere
    chart.x_labels.push_back(bucket_label(bucket));
  }
  for (const PplResult& result : results) {
    metrics::LineSeries series{.name = result.name, .values = {}};
    for (const PplBucket& bucket : result.buckets) {
      series.values.push_back(std::isfinite(bucket.loss) ? std::optional(bucket.loss) : std::nullopt);
    }
    chart.series.push_back(std::move(series));
  }
  return metrics::line_chart_svg(chart);
}

}  // namespace

std::string rows_sha256(const std::vector<data::Row>& rows) {
  Sha256 hash;
  for (const data::Row& row : rows) {
    hash.update({reinterpret_cast<const char*>(row.ids.data()), row.ids.size() * sizeof(row.ids[0])});
    hash.update({reinterpret_cast<const char*>(row.lengths.data()), row.lengths.size() * sizeof(row.lengths[0])});
  }
  return hash.hex();
}

std::string run_perplexity(const PplRun& run, const std::vector<data::Row>& rows,
                           const std::function<model::Model()>& load, dist::Communicator& communicator) {
  Json settings = run.identity;
  settings["context"] = run.context;
  settings["rows_sha256"] = rows_sha256(rows);
  settings["log_scale"] = run.options.log_scale;
  settings["log_scale_a"] = run.log_scale_a;
  const fs::path file = run.out / "ppl.json";
  std::vector<PplResult> results;
  if (fs::exists(file)) {
    const Json known = read_json_file(file.string());
    require_same_settings(known.value("settings", Json::object()), settings, file);
    for (const Json& result : known.at("results")) {
      results.push_back(ppl_from_json(result));
    }
    return ppl_table(results);
  }
  HYDRA_REQUIRE(!fs::exists(run.out) || fs::is_empty(run.out), run.out.string(),
                ": holds files but no ppl.json; expected a new or empty directory");
  const auto claim = dist::claim_for_job(communicator, run.out);
  const model::Model model = load();
  if (!run.log_scale_a.empty()) {  // first, as it may be refused
    results = sweep_log_scale(run.name, model, rows, run.options, run.log_scale_a, communicator);
  }
  results.insert(results.begin(), measure_perplexity(run.name, model, rows, run.options, communicator));
  std::string table = ppl_table(results);
  Json json = {{"format", "hydrahead perplexity 1"}, {"settings", settings}, {"results", Json::array()}};
  for (const PplResult& result : results) {
    json["results"].push_back(to_json(result));
  }
  if (!run.log_scale_a.empty()) {
    const auto best = std::min_element(results.begin() + 1, results.end(),
                                       [](const PplResult& a, const PplResult& b) { return a.loss < b.loss; });
    json["best_log_scale_a"] = *best->log_scale_a;
    table.append("\nlowest loss: ").append(best->name).append("\n");
  }
  if (communicator.rank() == 0) {
    write_file_atomic(run.out / "ppl.md", "# Perplexity: " + run.name + "\n\nLoss in nats a token.\n\n" + table);
    write_file_atomic(run.out / "ppl.svg", chart(results));
    write_file_atomic(run.out / "run.json", run.run_info.dump(1) + "\n");
    write_file_atomic(file, json.dump(1) + "\n");
  }
  communicator.barrier();
  return table;
}

}  // namespace hydra::eval
