#pragma once
// Text files -> token files, on all cores; the output does not depend on the number of workers. Every line is accounted
// for: kept, or skipped for a reason that is counted (user-needs.md section 7).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/text_reader.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

enum class LongDocuments { keep, split, drop };

struct IngestOptions {
  TextFormat format = TextFormat::by_name;
  std::string field = "text";
  // What happens to documents of more than max_tokens tokens (0: no limit). split: consecutive documents of at most
  // max_tokens; no token is lost.
  LongDocuments long_documents = LongDocuments::split;
  std::int64_t max_tokens = 0;
  // Appended to every document.
  text::TokenId end_token = 0;
  // Text that spells a special token becomes that token. Off: it stays text.
  bool parse_added_tokens = false;
  // Fails when a larger share of the lines is malformed (empty lines and blank texts do not count as malformed).
  double max_bad_share = 0.2;
  int workers = 0;  // 0: one a core
};

struct SkippedLines {
  std::int64_t count = 0;
  std::vector<std::string> first;  // "file:line" of the first ten
};

struct IngestReport {
  std::int64_t lines = 0;  // read; a plain text file counts as one
  std::int64_t kept = 0;
  std::map<std::string, SkippedLines> skipped;  // by reason; kept + skipped = lines
  std::int64_t bytes = 0;                       // of the kept texts (UTF-8)
  std::int64_t documents = 0;                   // written
  std::int64_t tokens = 0;                      // written, end tokens included
  std::int64_t long_documents = 0;              // over the limit: split or dropped
  std::int64_t dropped_tokens = 0;
};

struct IngestProgress {
  const IngestReport& report;
  std::int64_t bytes_done;  // of the files as they lie on disk
  std::int64_t bytes_total;
};

// The token that ends a document: <|endoftext|> if the tokenizer has it, else the eos_token of tokenizer_config.json
// beside it. UserError if there is neither.
text::TokenId end_of_document(const text::Tokenizer& tokenizer, const std::filesystem::path& tokenizer_dir);

// Writes PREFIX.{bin,idx,json}. On any error or signal (Interrupted) nothing stays.
IngestReport ingest(const std::vector<std::filesystem::path>& inputs, const text::Tokenizer& tokenizer,
                    const std::filesystem::path& prefix, const IngestOptions& options,
                    const std::function<void(const IngestProgress&)>& progress = {});

}  // namespace hydra::data
