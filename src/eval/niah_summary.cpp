#include "hydrahead/eval/niah_summary.hpp"

#include <algorithm>
#include <cmath>

#include "format.hpp"
#include "hydrahead/base/error.hpp"

namespace hydra::eval {
namespace {

using data::NiahTask;

constexpr int depth_bins = 10;

struct Group {
  const char* name;
  std::vector<NiahTask> tasks;
};
const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"singles", {NiahTask::single_1, NiahTask::single_2, NiahTask::single_3}},
      {"multi-keys", {NiahTask::multikey_1, NiahTask::multikey_2, NiahTask::multikey_3}},
      {"NIAH-8", {std::begin(data::all_niah_tasks), std::end(data::all_niah_tasks)}}};
  return all;
}

// The cell's records by index, which makes every sum independent of the order on disk.
std::vector<const SampleRecord*> records_of(const std::map<std::string, SampleRecord>& records, NiahTask task,
                                            std::int64_t length, std::int64_t samples) {
  std::vector<const SampleRecord*> found;
  for (const auto& [id, record] : records) {
    if (record.task == task && record.length == length && record.index < samples) {
      found.push_back(&record);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const SampleRecord* a, const SampleRecord* b) { return a->index < b->index; });
  return found;
}

NiahCell summarize_cell(const std::vector<const SampleRecord*>& records, std::int64_t length) {
  NiahCell cell;
  cell.samples = static_cast<std::int64_t>(records.size());
  const auto n = static_cast<double>(records.size());
  double score = 0, squares = 0;
  cell.tokens_min = records.front()->prompt_tokens + records.front()->budget;
  for (const SampleRecord* record : records) {
    score += record->score.score / n;
    squares += record->score.score * record->score.score / n;
    cell.strict += 100 * record->score.strict / n;
    cell.precision += 100 * record->score.precision / n;
    cell.f1 += 100 * record->score.f1 / n;
    cell.truncated += record->truncated ? 1 : 0;
    cell.failed += record->error.empty() ? 0 : 1;
    cell.empty += record->error.empty() && record->pred.empty() ? 1 : 0;
    const std::int64_t tokens = record->prompt_tokens + record->budget;
    cell.tokens_min = std::min(cell.tokens_min, tokens);
    cell.tokens_max = std::max(cell.tokens_max, tokens);
    cell.tokens_mean += static_cast<double>(tokens) / n;
  }
  score = std::min(score, 1.0);  // sums of 1/n may end above
  cell.score = 100 * score;
  const Interval interval = wilson_interval(score, records.size());
  cell.low = 100 * interval.low;
  cell.high = 100 * interval.high;
  if (records.size() > 1) {
    cell.squared_error = 1e4 * std::max(0.0, squares - score * score) / (n - 1);
  }
  cell.fill = 100 * cell.tokens_mean / static_cast<double>(length);
  return cell;
}

DepthTable empty_depth_table(const std::vector<double>& grid, std::size_t lengths) {
  DepthTable table;
  for (const double depth : grid) {
    table.rows.push_back(fixed(depth, depth == std::floor(depth) ? 0 : 1) + "%");
  }
  for (int bin = 0; grid.empty() && bin < depth_bins; ++bin) {
    table.rows.push_back(std::to_string(bin * 10) + "-" + std::to_string(bin * 10 + 10) + "%");
  }
  table.cells.assign(table.rows.size(), std::vector<DepthCell>(lengths));
  return table;
}

// Tasks whose samples hold one needle: with a grid, sample i has it at the grid's value i, i + n, ...
bool has_one_needle(NiahTask task) {
  return task != NiahTask::multikey_1 && task != NiahTask::multivalue && task != NiahTask::multiquery;
}

std::size_t nearest_row(double percent, const std::vector<double>& rows) {
  std::size_t best = 0;
  for (std::size_t row = 1; row < rows.size(); ++row) {
    if (std::abs(rows[row] - percent) < std::abs(rows[best] - percent)) {
      best = row;
    }
  }
  return best;
}

// `grid` as it was asked for, `sorted` as the table's rows. Needles of several-needle samples go to the nearest value.
std::size_t depth_row(const SampleRecord& record, double depth, const std::vector<double>& grid,
                      const std::vector<double>& sorted) {
  if (grid.empty()) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(depth * depth_bins), 0, depth_bins - 1));
  }
  const double percent =
      has_one_needle(record.task) ? grid[static_cast<std::size_t>(record.index) % grid.size()] : 100 * depth;
  return nearest_row(percent, sorted);
}

void add_depths(DepthTable& table, std::size_t column, const std::vector<const SampleRecord*>& records,
                const std::vector<double>& grid, const std::vector<double>& sorted) {
  for (const SampleRecord* record : records) {
    for (std::size_t r = 0; r < record->depths.size(); ++r) {
      DepthCell& cell = table.cells[depth_row(*record, record->depths[r], grid, sorted)][column];
      cell.needles += 1;
      cell.found += record->score.hits[r] ? 1 : 0;
    }
  }
}

NiahMeanRow mean_row(const NiahSummary& summary, const Group& group) {
  NiahMeanRow row{.name = group.name, .of = static_cast<std::int64_t>(group.tasks.size()), .lengths = {}};
  for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
    NiahMean mean;
    double squared_errors = 0;
    for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
      const NiahCell& cell = summary.cells[t][column];
      const bool member = std::find(group.tasks.begin(), group.tasks.end(), summary.tasks[t]) != group.tasks.end();
      if (member && cell.missing.empty()) {
        mean.cells += 1;
        mean.score += cell.score;
        squared_errors += cell.squared_error;
      }
    }
    if (mean.cells > 0) {
      mean.score /= static_cast<double>(mean.cells);
      mean.half = 1.96 * std::sqrt(squared_errors) / static_cast<double>(mean.cells);
    }
    row.lengths.push_back(mean);
  }
  return row;
}

void add_averages(NiahSummary& summary) {
  std::vector<double> scores;
  const NiahMeanRow& all = summary.means.back();
  for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
    if (all.lengths[column].cells > 0) {
      scores.push_back(all.lengths[column].score);
      if (scores.back() > summary.threshold) {
        summary.effective_length = summary.lengths[column];
      }
    }
  }
  if (scores.empty()) {
    return;
  }
  double plain = 0, rising = 0, falling = 0;
  const auto n = static_cast<double>(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    plain += scores[i] / n;
    rising += scores[i] * (static_cast<double>(i) + 1) / (n * (n + 1) / 2);
    falling += scores[i] * (n - static_cast<double>(i)) / (n * (n + 1) / 2);
  }
  summary.average = plain;
  summary.average_increasing = rising;
  summary.average_decreasing = falling;
}

}  // namespace

NiahSummary summarize_niah(const NiahRequest& request, const std::map<std::string, SampleRecord>& records) {
  NiahSummary summary;
  summary.name = request.name;
  summary.settings = request.settings;
  summary.tasks = request.tasks;
  summary.lengths = request.lengths;
  summary.threshold = request.threshold;
  std::vector<double> sorted = request.depths;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (const NiahTask task : request.tasks) {
    std::vector<NiahCell> row;
    DepthTable depths = empty_depth_table(sorted, request.lengths.size());
    for (std::size_t column = 0; column < request.lengths.size(); ++column) {
      const std::int64_t length = request.lengths[column];
      const auto found = records_of(records, task, length, request.samples[column]);
      NiahCell cell;
      if (const auto reason = request.missing.find({task, length}); reason != request.missing.end()) {
        cell.missing = reason->second;
      } else if (found.empty()) {
        cell.missing = "not tested";
      } else {
        cell = summarize_cell(found, length);
        add_depths(depths, column, found, request.depths, sorted);
      }
      for (const SampleRecord* record : found) {
        summary.essay_repeats = std::max(summary.essay_repeats, record->essay_repeats);
        summary.recounted += record->recounted ? 1 : 0;
      }
      summary.samples += cell.samples;
      summary.empty += cell.empty;
      summary.truncated += cell.truncated;
      summary.failed += cell.failed;
      row.push_back(cell);
    }
    summary.cells.push_back(std::move(row));
    summary.depths.push_back(std::move(depths));
  }
  for (const Group& group : groups()) {
    const auto asked = std::count_if(group.tasks.begin(), group.tasks.end(), [&](NiahTask task) {
      return std::find(request.tasks.begin(), request.tasks.end(), task) != request.tasks.end();
    });
    if (asked > 1 || &group == &groups().back()) {
      summary.means.push_back(mean_row(summary, group));
    }
  }
  add_averages(summary);
  return summary;
}

}  // namespace hydra::eval
