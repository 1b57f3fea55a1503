#include "hydrahead/data/jsonl_ingest.hpp"

#include <algorithm>
#include <deque>
#include <future>
#include <iterator>
#include <thread>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/data/token_file.hpp"
#include "worker_pool.hpp"

namespace hydra::data {
namespace {

constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t batch_lines = 8192;
constexpr std::size_t examples = 10;  // of the lines skipped for one reason

// Consecutive lines of one file, end to end; a plain text file is a batch of its own.
struct Batch {
  std::size_t file = 0;
  std::int64_t first_line = 1;
  bool whole_file = false;
  std::string text;
  std::vector<std::size_t> ends;
};

struct BatchResult {
  struct Skipped {
    std::int64_t line;
    std::string reason;
  };
  std::size_t file = 0;
  std::int64_t lines = 0, kept = 0, bytes = 0, long_documents = 0, dropped_tokens = 0;
  std::vector<Skipped> skipped;
  std::vector<std::int32_t> ids;  // of all documents
  std::vector<std::size_t> lengths;
};

bool is_malformed(std::string_view reason) {
  return reason == skip::invalid_json || reason == skip::no_object || reason == skip::no_field ||
         reason == skip::no_string;
}

class BatchReader {
 public:
  BatchReader(const std::vector<fs::path>& inputs, TextFormat format) : inputs_(inputs), format_(format) {
    for (const fs::path& input : inputs_) {
      bytes_total_ += static_cast<std::int64_t>(fs::file_size(input));
    }
  }

  std::optional<Batch> next() {
    while (true) {
      if (!lines_) {
        if (file_ == inputs_.size()) {
          return std::nullopt;
        }
        lines_.emplace(inputs_[file_]);
        line_ = 1;
      }
      Batch batch{file_, line_, format_of(inputs_[file_], format_) == TextFormat::plain, {}, {}};
      if (batch.whole_file) {
        batch.text = lines_->rest();
        batch.ends.push_back(batch.text.size());
        finish_file();
        return batch;
      }
      while (batch.text.size() < batch_bytes && batch.ends.size() < batch_lines) {
        const std::optional<std::string_view> line = lines_->next();
        if (!line) {
          finish_file();
          break;
        }
        batch.text.append(*line);
        batch.ends.push_back(batch.text.size());
        ++line_;
      }
      if (!batch.ends.empty()) {
        return batch;
      }
    }
  }

  std::int64_t bytes_total() const { return bytes_total_; }
  std::int64_t bytes_done() const { return bytes_before_ + (lines_ ? lines_->bytes_consumed() : 0); }

 private:
  void finish_file() {
    bytes_before_ += lines_->bytes_consumed();
    lines_.reset();
    ++file_;
  }

  const std::vector<fs::path>& inputs_;
  TextFormat format_;
  std::size_t file_ = 0;
  std::optional<LineReader> lines_;
  std::int64_t line_ = 1;
  std::int64_t bytes_before_ = 0, bytes_total_ = 0;
};

// Appends one document to the result, whole, in parts or not at all.
void add_document(std::vector<text::TokenId> ids, std::int64_t line, const IngestOptions& options,
                  BatchResult& result) {
  const auto limit = static_cast<std::size_t>(options.max_tokens);
  ids.push_back(options.end_token);
  const bool too_long = limit > 0 && ids.size() > limit;
  result.long_documents += too_long ? 1 : 0;
  if (too_long && options.long_documents == LongDocuments::drop) {
    result.dropped_tokens += static_cast<std::int64_t>(ids.size());
    result.skipped.push_back({line, std::string(skip::too_long)});
    return;
  }
  ++result.kept;
  const std::size_t part = too_long && options.long_documents == LongDocuments::split ? limit : ids.size();
  for (std::size_t begin = 0; begin < ids.size(); begin += part) {
    result.lengths.push_back(std::min(part, ids.size() - begin));
  }
  result.ids.insert(result.ids.end(), ids.begin(), ids.end());
}

BatchResult tokenize_batch(const Batch& batch, const text::Tokenizer& tokenizer, const IngestOptions& options) {
  BatchResult result;
  result.file = batch.file;
  result.lines = static_cast<std::int64_t>(batch.ends.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.ends.size(); ++i) {
    const std::string_view line = std::string_view(batch.text).substr(begin, batch.ends[i] - begin);
    const std::int64_t number = batch.first_line + static_cast<std::int64_t>(i);
    begin = batch.ends[i];
    const Expected<std::string> text =
        batch.whole_file ? text_of_plain(std::string(line)) : text_of_line(line, options.field);
    if (!text) {
      result.skipped.push_back({number, text.error()});
      continue;
    }
    const std::int64_t kept_before = result.kept;
    add_document(tokenizer.encode(*text, {options.parse_added_tokens, false}), number, options, result);
    result.bytes += result.kept > kept_before ? static_cast<std::int64_t>(text->size()) : 0;
  }
  return result;
}

void collect(const BatchResult& result, const std::vector<fs::path>& inputs, TokenFileWriter& writer,
             IngestReport& report) {
  std::size_t begin = 0;
  for (const std::size_t length : result.lengths) {
    writer.add_document(std::span(result.ids).subspan(begin, length));
    begin += length;
  }
  report.lines += result.lines;
  report.kept += result.kept;
  report.bytes += result.bytes;
  report.long_documents += result.long_documents;
  report.dropped_tokens += result.dropped_tokens;
  report.documents = writer.documents();
  report.tokens = writer.tokens();
  for (const BatchResult::Skipped& skipped : result.skipped) {
    SkippedLines& group = report.skipped[skipped.reason];
    ++group.count;
    if (group.first.size() < examples) {
      group.first.push_back(inputs[result.file].string() + ":" + std::to_string(skipped.line));
    }
  }
}

void require_usable(const IngestReport& report, const IngestOptions& options) {
  std::int64_t malformed = 0;
  std::string where;
  for (const auto& [reason, lines] : report.skipped) {
    if (is_malformed(reason)) {
      malformed += lines.count;
      where += (where.empty() ? "" : "; ") + reason + ": " + lines.first.front() +
               (lines.count > 1 ? " and " + std::to_string(lines.count - 1) + " more" : "");
    }
  }
  HYDRA_REQUIRE(static_cast<double>(malformed) <= options.max_bad_share * static_cast<double>(report.lines),
                "malformed lines: found ", malformed, " of ", report.lines, " (", where,
                "), expected a share of at most ", options.max_bad_share);
  HYDRA_REQUIRE(report.kept > 0, "found no document to keep among ", report.lines, " lines, expected at least one");
}

Json describe(const IngestReport& report, const text::Tokenizer& tokenizer, const std::vector<fs::path>& inputs,
              const IngestOptions& options) {
  Json skipped = Json::object();
  for (const auto& [reason, lines] : report.skipped) {
    skipped[reason] = lines.count;
  }
  Json names = Json::array();
  for (const fs::path& input : inputs) {
    names.push_back(input.filename().string());
  }
  constexpr const char* long_names[] = {"keep", "split", "drop"};
  return {{"tokenizer_sha256", tokenizer.sha256()},
          {"end_token", options.end_token},
          {"special_tokens", options.parse_added_tokens ? "parse" : "text"},
          {"max_tokens", options.max_tokens},
          {"long_documents", long_names[static_cast<int>(options.long_documents)]},
          {"inputs", names},
          {"lines", report.lines},
          {"kept", report.kept},
          {"skipped", skipped}};
}

}  // namespace

text::TokenId end_of_document(const text::Tokenizer& tokenizer, const fs::path& tokenizer_dir) {
  if (const std::optional<text::TokenId> id = tokenizer.id_of("<|endoftext|>")) {
    return *id;
  }
  const fs::path config_path = tokenizer_dir / "tokenizer_config.json";
  HYDRA_REQUIRE(fs::exists(config_path), config_path.string(),
                ": found no such file and no <|endoftext|> in the tokenizer, expected one to name the end token");
  const Json config = read_json_file(config_path.string());
  const auto found = config.find("eos_token");
  const Json token = found == config.end() ? Json() : found->is_object() ? found->value("content", Json()) : *found;
  const std::optional<text::TokenId> id = token.is_string() ? tokenizer.id_of(token.get<std::string>()) : std::nullopt;
  HYDRA_REQUIRE(id, config_path.string(), ": eos_token: found ", token.dump(), ", expected a token of tokenizer.json");
  return *id;
}

IngestReport ingest(const std::vector<fs::path>& inputs, const text::Tokenizer& tokenizer, const fs::path& prefix,
                    const IngestOptions& options, const std::function<void(const IngestProgress&)>& progress) {
  for (const fs::path& input : inputs) {  // before anything is written
    HYDRA_REQUIRE(fs::is_regular_file(input), input.string(), ": found no regular file, expected one");
    format_of(input, options.format);
  }
  TokenFileWriter writer(prefix, tokenizer.id_limit());
  BatchReader reader(inputs, options.format);
  const int workers = options.workers > 0 ? options.workers : std::max(1u, std::thread::hardware_concurrency());
  IngestReport report;
  std::deque<std::future<BatchResult>> pending;  // in the order of the text, which makes the output the same for any
                                                 // number of workers; bounded, so is the memory
  WorkerPool<BatchResult> pool(workers);
  const auto collect_first = [&] {
    collect(pending.front().get(), inputs, writer, report);
    pending.pop_front();
    if (progress) {
      progress({report, reader.bytes_done(), reader.bytes_total()});
    }
    if (stop_requested()) {
      throw Interrupted(prefix.string() + ": stopped by a signal; nothing was written");
    }
  };
  while (std::optional<Batch> batch = reader.next()) {
    pending.push_back(pool.submit(
        [&tokenizer, &options, batch = std::move(*batch)] { return tokenize_batch(batch, tokenizer, options); }));
    if (pending.size() >= 4 * static_cast<std::size_t>(workers)) {
      collect_first();
    }
  }
  while (!pending.empty()) {
    collect_first();
  }
  require_usable(report, options);
  writer.commit(describe(report, tokenizer, inputs, options));
  return report;
}

}  // namespace hydra::data
