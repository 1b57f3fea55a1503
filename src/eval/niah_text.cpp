// summary.csv and summary.md of a NIAH run; the terminal shows the table.

#include <string>
#include <vector>

#include "format.hpp"
#include "hydrahead/eval/niah_summary.hpp"

namespace hydra::eval {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    out.append(c == '"' ? 2 : 1, c == '\n' ? ' ' : c);
  }
  return out.append("\"");
}

std::string optional_text(const std::optional<double>& value) { return value ? fixed(*value, 2) : "none"; }

// Every distinct reason with the cells that have it.
std::vector<std::string> missing_lines(const NiahSummary& summary) {
  std::vector<std::string> lines;
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
      const NiahCell& cell = summary.cells[t][column];
      if (!cell.missing.empty()) {
        std::string line(data::task_name(summary.tasks[t]));
        line.append(" at ").append(std::to_string(summary.lengths[column])).append(": ").append(cell.missing);
        lines.push_back(std::move(line));
      }
    }
  }
  return lines;
}

}  // namespace

std::string niah_csv(const NiahSummary& summary) {
  std::string csv =
      "task,length,n,score,low,high,strict,precision,f1,truncated,empty,failed,tokens_min,tokens_mean,tokens_max,fill,"
      "reason\n";
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    for (std::size_t column = 0; column < summary.lengths.size(); ++column) {
      const NiahCell& cell = summary.cells[t][column];
      csv.append(data::task_name(summary.tasks[t])).append(",").append(std::to_string(summary.lengths[column]));
      csv.append(",").append(std::to_string(cell.samples));
      if (!cell.missing.empty()) {
        csv.append(13, ',').append(",").append(quoted(cell.missing)).append("\n");
        continue;
      }
      for (const double value : {cell.score, cell.low, cell.high, cell.strict, cell.precision, cell.f1}) {
        csv.append(",").append(fixed(value, 2));
      }
      for (const std::int64_t value : {cell.truncated, cell.empty, cell.failed, cell.tokens_min}) {
        csv.append(",").append(std::to_string(value));
      }
      csv.append(",").append(fixed(cell.tokens_mean, 1)).append(",").append(std::to_string(cell.tokens_max));
      csv.append(",").append(fixed(cell.fill, 2)).append(",\n");
    }
  }
  return csv;
}

std::string niah_table(const NiahSummary& summary) {
  std::string text = "| task |";
  std::string rule = "\n|---|";
  for (const std::int64_t length : summary.lengths) {
    text.append(" ").append(std::to_string(length)).append(" |");
    rule.append("---|");
  }
  text.append(rule).append("\n");
  for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
    text.append("| ").append(data::task_name(summary.tasks[t])).append(" |");
    for (const NiahCell& cell : summary.cells[t]) {
      if (cell.missing.empty()) {
        text.append(" ").append(fixed(cell.score, 2)).append(" [").append(fixed(cell.low, 1)).append(", ");
        text.append(fixed(cell.high, 1)).append("] |");
      } else {
        text.append(" - |");
      }
    }
    text.append("\n");
  }
  for (const NiahMeanRow& row : summary.means) {
    text.append("| **").append(row.name).append("** |");
    for (const NiahMean& mean : row.lengths) {
      if (mean.cells > 0) {
        text.append(" ").append(fixed(mean.score, 2)).append(" ± ").append(fixed(mean.half, 2));
        text.append(" (")
            .append(std::to_string(mean.cells))
            .append(" of ")
            .append(std::to_string(row.of))
            .append(") |");
      } else {
        text.append(" - |");
      }
    }
    text.append("\n");
  }
  text.append("\nAvg ").append(optional_text(summary.average));
  text.append(", wAvg(inc) ").append(optional_text(summary.average_increasing));
  text.append(", wAvg(dec) ").append(optional_text(summary.average_decreasing));
  text.append(", effective length (mean > ").append(fixed(summary.threshold, 1)).append(") ");
  text.append(summary.effective_length ? std::to_string(*summary.effective_length) : "none");
  text.append(". Nulls ").append(std::to_string(summary.empty)).append(" of ").append(std::to_string(summary.samples));
  text.append(" samples, truncated ").append(std::to_string(summary.truncated));
  text.append(", failed ").append(std::to_string(summary.failed)).append(".\n");
  if (summary.essay_repeats > 0) {
    text.append("- the essay was too short: it began again up to ").append(std::to_string(summary.essay_repeats));
    text.append(" times in a sample\n");
  }
  if (summary.recounted > 0) {
    text.append("- ").append(std::to_string(summary.recounted)).append(" samples were fitted by re-tokenizing\n");
  }
  for (const std::string& line : missing_lines(summary)) {
    text.append("- not tested: ").append(line).append("\n");
  }
  return text;
}

std::string niah_markdown(const NiahSummary& summary) {
  std::string text = "# NIAH: " + summary.name + "\n\n" + niah_table(summary);
  text.append(
      "\nScores in percent: RULER's substring recall with Wilson's 95% interval; means ± 1.96 standard errors, ");
  text.append("with the number of tasks they cover. Truncated: the answer used its whole budget without a stop ");
  text.append("token.\n\n## Settings\n\n");
  for (const auto& [key, value] : summary.settings.items()) {
    text.append("- ").append(key).append(": `").append(value.is_string() ? value.get<std::string>() : value.dump());
    text.append("`\n");
  }
  text.append("\n## Prompts\n");
  for (const auto& [id, prompt] : summary.prompts) {
    text.append("\n").append(id).append("\n\n~~~~text\n").append(prompt).append("\n~~~~\n");
  }
  return text;
}

}  // namespace hydra::eval
