#pragma once
// Results of NIAH runs out of sample records: a pure function of the set of records, whatever their order. Missing is
// not zero: a cell without samples has a reason, is left out of means, and the means say how many cells they cover.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/niah.hpp"
#include "hydrahead/eval/record_store.hpp"

namespace hydra::eval {

// One task at one length. Scores, bounds and fill in percent.
struct NiahCell {
  std::int64_t samples = 0;
  std::string missing;                  // why there are no samples; empty: there are
  double score = 0, low = 0, high = 0;  // RULER's score and Wilson's 95% interval
  double strict = 0, precision = 0, f1 = 0;
  double squared_error = 0;                           // of the score: s^2 / n
  std::int64_t truncated = 0, empty = 0, failed = 0;  // samples
  std::int64_t tokens_min = 0, tokens_max = 0;        // prompt and budget
  double tokens_mean = 0, fill = 0;
};

// Mean of a group of tasks at one length.
struct NiahMean {
  std::int64_t cells = 0;      // that have samples, and so are in the mean
  double score = 0, half = 0;  // 95% half width
};
struct NiahMeanRow {
  std::string name;     // "singles", "multi-keys", "NIAH-8"
  std::int64_t of = 0;  // tasks of the group
  std::vector<NiahMean> lengths;
};

// Recall by needle depth of one task: every reference counts at its own needle's depth.
struct DepthCell {
  std::int64_t needles = 0, found = 0;
};
struct DepthTable {
  std::vector<std::string> rows;              // "0-10%", or the grid's values
  std::vector<std::vector<DepthCell>> cells;  // [row][length]
};

struct NiahSummary {
  std::string name;  // what was evaluated
  Json settings;     // all that changes samples or answers
  std::vector<data::NiahTask> tasks;
  std::vector<std::int64_t> lengths;         // ascending
  std::vector<std::vector<NiahCell>> cells;  // [task][length]
  std::vector<NiahMeanRow> means;            // the last one is NIAH-8
  std::vector<DepthTable> depths;            // [task]
  // Of the NIAH-8 means over lengths: plain, with weights 1..n rising with length, and falling.
  std::optional<double> average, average_increasing, average_decreasing;
  double threshold = 85.6;
  std::optional<std::int64_t> effective_length;  // the longest whose mean is above the threshold
  std::int64_t samples = 0, empty = 0, truncated = 0, failed = 0;
  std::int64_t essay_repeats = 0,
               recounted = 0;  // most repeats of the essay in a sample; samples fitted by re-tokenizing
  std::vector<std::pair<std::string, std::string>>
      prompts;  // id and text of each task's sample 0 at its shortest length
};

// What was asked for.
struct NiahRequest {
  std::string name;
  Json settings;
  std::vector<data::NiahTask> tasks;
  std::vector<std::int64_t> lengths;  // ascending
  std::vector<std::int64_t> samples;  // a length each
  std::vector<double> depths;         // percent; empty: ten bins
  double threshold = 85.6;
  std::map<std::pair<data::NiahTask, std::int64_t>, std::string> missing;  // why a cell is not tested
};
NiahSummary summarize_niah(const NiahRequest& request, const std::map<std::string, SampleRecord>& records);

// The files of a summary: JSON (read back by read_niah_summary), CSV with a line a cell, and Markdown.
Json to_json(const NiahSummary& summary);
NiahSummary read_niah_summary(const std::filesystem::path& summary_json);
std::string niah_csv(const NiahSummary& summary);
std::string niah_table(const NiahSummary& summary);     // the Markdown table and the lines below it
std::string niah_markdown(const NiahSummary& summary);  // the whole report

}  // namespace hydra::eval
