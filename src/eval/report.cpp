#include "hydrahead/eval/report.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "format.hpp"
#include "hydrahead/base/files.hpp"
#include "report_parts.hpp"

namespace hydra::eval {
namespace {

std::string markdown_header(const std::string& first, const std::vector<std::string>& columns) {
  std::string text = "| " + first + " |", rule = "\n|---|";
  for (const std::string& column : columns) {
    text.append(" ").append(column).append(" |");
    rule.append("---|");
  }
  return text + rule + "\n";
}

std::vector<std::string> length_columns(const RunReport& report) {
  std::vector<std::string> columns;
  for (const std::int64_t length : report_lengths(report)) {
    columns.push_back(std::to_string(length));
  }
  return columns;
}

std::string means_table(const RunReport& report) {
  const auto tasks = static_cast<std::int64_t>(report_tasks(report).size());
  std::string text = markdown_header("mean over tasks", length_columns(report));
  for (const StateResult& state : report.states) {
    if (!state.niah) {
      continue;
    }
    text.append("| ").append(state.name).append(" |");
    for (const std::int64_t length : report_lengths(report)) {
      const NiahMean* mean = find_mean(state, length);
      if (mean == nullptr) {
        text.append(" - |");
        continue;
      }
      text.append(detail::concat(" ", fixed(mean->score, 1), " ± ", fixed(mean->half, 1)));
      text.append(mean->cells < tasks ? detail::concat(" (", mean->cells, " of ", tasks, " tasks) |") : " |");
    }
    text.append("\n");
  }
  return text;
}

std::string tasks_table(const RunReport& report) {
  std::vector<std::string> columns = length_columns(report);
  columns.insert(columns.begin(), "state");
  std::string text = markdown_header("task", columns);
  for (const data::NiahTask task : report_tasks(report)) {
    for (const StateResult& state : report.states) {
      if (!state.niah) {
        continue;
      }
      text.append("| ").append(data::task_name(task)).append(" | ").append(state.name).append(" |");
      for (const std::int64_t length : report_lengths(report)) {
        const NiahCell* cell = find_cell(state, task, length);
        const bool tested = cell != nullptr && cell->missing.empty();
        text.append(tested ? detail::concat(" ", fixed(cell->score, 1), " [", fixed(cell->low, 0), ", ",
                                            fixed(cell->high, 0), "] |")
                           : " - |");
      }
      text.append("\n");
    }
  }
  return text;
}

std::string cache_table(const RunReport& report) {
  std::vector<std::string> columns = {"KV bytes a token", "constant"};
  for (const std::string& length : length_columns(report)) {
    columns.push_back("at " + length);
  }
  std::string text = markdown_header("decode state", columns);
  for (const CacheRow& row : cache_rows(report)) {
    text.append("| ").append(row.name).append(" | ").append(grouped(row.cache.kv_per_token)).append(" | ");
    text.append(bytes_text(static_cast<double>(row.cache.constant))).append(" |");
    for (const std::int64_t length : report_lengths(report)) {
      text.append(" ").append(bytes_text(static_cast<double>(cache_bytes_at(row.cache, length)))).append(" |");
    }
    text.append("\n");
  }
  return text;
}

std::string speed_table(const RunReport& report) {
  std::string text = markdown_header("stage", {"context", "steps", "tokens", "seconds", "tokens/s", "TFLOP/s", "MFU",
                                               "peak memory", "loss, first to last"});
  for (const StageSpeed& speed : report.stages) {
    text.append("| ").append(speed.stage).append(" | ").append(std::to_string(speed.context)).append(" | ");
    text.append(std::to_string(speed.steps)).append(" | ").append(grouped(speed.tokens)).append(" | ");
    text.append(fixed(speed.seconds, 1)).append(" | ");
    text.append(grouped(static_cast<std::int64_t>(std::llround(speed.tokens_per_second)))).append(" | ");
    text.append(speed.teraflops > 0 ? fixed(speed.teraflops, speed.teraflops < 10 ? 3 : 1) : "-").append(" | ");
    text.append(speed.mfu > 0 ? fixed(100 * speed.mfu, 1) + "%" : "-").append(" | ");
    text.append(speed.peak_memory > 0 ? bytes_text(static_cast<double>(speed.peak_memory)) : "-").append(" | ");
    text.append(fixed(speed.first_loss, 4)).append(" to ").append(fixed(speed.last_loss, 4)).append(" |\n");
  }
  return text;
}

std::string report_markdown(const RunReport& report) {
  std::string text = "# " + report.title + "\n\n";
  for (const auto& [key, value] : report.facts) {
    text.append("- ").append(key).append(": ").append(one_line(value)).append("\n");
  }
  text.append("\n").append(run_report_tables(report)).append("\n## Full-attention heads\n\n");
  for (std::size_t layer = 0; layer < report.fa_heads.size(); ++layer) {
    text.append("- layer ").append(std::to_string(layer)).append(":");
    for (const std::int64_t head : report.fa_heads[layer]) {
      text.append(" ").append(std::to_string(head));
    }
    text.append(report.fa_heads[layer].empty() ? " none\n" : "\n");
  }
  for (const StateResult& state : report.states) {
    if (state.niah) {  // the samples are the same for every state
      text.append("\n## Prompts\n");
      for (const auto& [id, prompt] : state.niah->prompts) {
        text.append("\n").append(id).append("\n\n~~~~text\n").append(prompt).append("\n~~~~\n");
      }
      break;
    }
  }
  return text + "\n## Config\n\n~~~~yaml\n" + report.config_yaml + "\n~~~~\n";
}

}  // namespace

std::string one_line(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    text.replace(at, 1, "; ");
  }
  return text;
}

std::vector<std::int64_t> report_lengths(const RunReport& report) {
  std::set<std::int64_t> lengths;
  for (const StateResult& state : report.states) {
    if (state.niah) {
      lengths.insert(state.niah->lengths.begin(), state.niah->lengths.end());
    }
  }
  return {lengths.begin(), lengths.end()};
}

std::vector<data::NiahTask> report_tasks(const RunReport& report) {
  std::set<data::NiahTask> tasks;
  for (const StateResult& state : report.states) {
    if (state.niah) {
      tasks.insert(state.niah->tasks.begin(), state.niah->tasks.end());
    }
  }
  return {tasks.begin(), tasks.end()};
}

const NiahCell* find_cell(const StateResult& state, data::NiahTask task, std::int64_t length) {
  if (!state.niah) {
    return nullptr;
  }
  const auto row = std::find(state.niah->tasks.begin(), state.niah->tasks.end(), task);
  const auto column = std::find(state.niah->lengths.begin(), state.niah->lengths.end(), length);
  if (row == state.niah->tasks.end() || column == state.niah->lengths.end()) {
    return nullptr;
  }
  return &state.niah->cells[static_cast<std::size_t>(row - state.niah->tasks.begin())]
                           [static_cast<std::size_t>(column - state.niah->lengths.begin())];
}

const NiahMean* find_mean(const StateResult& state, std::int64_t length) {
  if (!state.niah) {
    return nullptr;
  }
  const auto column = std::find(state.niah->lengths.begin(), state.niah->lengths.end(), length);
  if (column == state.niah->lengths.end()) {
    return nullptr;
  }
  const NiahMean& mean =
      state.niah->means.back().lengths[static_cast<std::size_t>(column - state.niah->lengths.begin())];
  return mean.cells > 0 ? &mean : nullptr;
}

std::vector<CacheRow> cache_rows(const RunReport& report) {
  std::vector<CacheRow> rows;
  for (const StateResult& state : report.states) {
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const CacheRow& row) {
      return row.cache.kv_per_token == state.cache.kv_per_token && row.cache.constant == state.cache.constant;
    });
    if (same == rows.end()) {
      rows.push_back({state.name, state.cache});
    } else {
      same->name.append(", ").append(state.name);
    }
  }
  return rows;
}

std::int64_t cache_bytes_at(const model::CacheBytes& cache, std::int64_t length) {
  return cache.kv_per_token * length + cache.constant;
}

std::vector<PplResult> ppl_results(const RunReport& report) {
  std::vector<PplResult> results;
  for (const StateResult& state : report.states) {
    if (state.ppl) {
      results.push_back(*state.ppl);
      results.back().name = state.name;
    }
  }
  return results;
}

std::string niah_conditions(const RunReport& report) {
  for (const StateResult& state : report.states) {
    if (state.niah) {
      const Json& settings = state.niah->settings;
      std::string text =
          detail::concat("RULER's form, greedy answers, substring recall in percent; ", settings.value("prompt", ""),
                         " prompt, seed ", settings.value("seed", 0), ", answer budget ",
                         settings.contains("max_new") ? settings["max_new"].dump() : "", "; samples a cell:");
      for (std::size_t column = 0; column < state.niah->lengths.size(); ++column) {
        std::int64_t samples = 0;
        for (const auto& row : state.niah->cells) {
          samples = std::max(samples, row[column].samples);
        }
        text.append(detail::concat(column == 0 ? " " : ", ", samples, " at ", state.niah->lengths[column]));
      }
      return text + ". Brackets: Wilson's 95% interval; ±: 1.96 standard errors of the mean over tasks.";
    }
  }
  return "";
}

std::string run_report_tables(const RunReport& report) {
  std::string text;
  if (!report_lengths(report).empty()) {
    text.append("## Needle in a haystack\n\n").append(means_table(report)).append("\n").append(tasks_table(report));
    text.append("\n").append(niah_conditions(report)).append("\n");
    for (const StateResult& state : report.states) {
      if (state.niah) {
        text.append(detail::concat("- ", state.name, ": ", state.niah->samples, " samples, truncated ",
                                   state.niah->truncated, ", empty ", state.niah->empty, ", failed ",
                                   state.niah->failed, "\n"));
      }
    }
    text.append("\n");
  }
  if (!report.states.empty()) {
    text.append("## KV cache and state\n\n").append(cache_table(report));
  }
  if (const std::vector<PplResult> results = ppl_results(report); !results.empty()) {
    text.append("\n## Loss by position on held-out text (nats a token)\n\n").append(ppl_table(results));
  }
  if (!report.stages.empty()) {
    text.append("\n## Training\n\n").append(speed_table(report));
  }
  return text;
}

void write_run_report(const std::filesystem::path& dir, const RunReport& report) {
  write_file_atomic(dir / "report.json", report_json(report).dump(1) + "\n");
  write_file_atomic(dir / "report.md", report_markdown(report));
  write_file_atomic(dir / "report.html", report_html(report));
}

}  // namespace hydra::eval
