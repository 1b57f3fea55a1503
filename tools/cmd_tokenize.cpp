// hydrahead tokenize: text files -> token files; --ids and --decode translate standard input line by line.

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/data/jsonl_ingest.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "hydrahead/text/unicode.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::string tokenizer, out;
  std::string format = "auto", long_documents = "split", special_tokens = "default", end_token;
  bool ids = false, decode = false, skip_special = false;
  data::IngestOptions ingest;
};

bool parse_special(const Options& options, bool otherwise) {
  return options.special_tokens == "default" ? otherwise : options.special_tokens == "parse";
}

// One JSON value a line on standard input -> one on standard output. Malformed UTF-8 is replaced, as in any text.
template <class Translate>
void translate_lines(Translate&& translate) {
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
    const std::string where = "standard input, line " + std::to_string(number);
    std::cout << translate(parse_json(text::replace_malformed(line)).value_or_fail(where), where)
              << std::endl;  // one answer a question
    if (stop_requested()) {
      throw Interrupted("stopped by a signal");
    }
  }
}

void print_ids(const text::Tokenizer& tokenizer, bool parse_added_tokens) {
  translate_lines([&](const Json& value, const std::string& where) {
    HYDRA_REQUIRE(value.is_string(), where, ": found ", value.type_name(), ", expected a JSON string");
    return Json(tokenizer.encode(value.get_ref<const std::string&>(), {parse_added_tokens, false})).dump();
  });
}

void print_texts(const text::Tokenizer& tokenizer, bool skip_special) {
  translate_lines([&](const Json& value, const std::string& where) {
    HYDRA_REQUIRE(value.is_array(), where, ": found ", value.type_name(), ", expected a JSON array of ids");
    std::vector<text::TokenId> ids;
    for (const Json& id : value) {
      const bool possible = id.is_number_integer() && id >= 0 && id <= INT32_MAX;
      HYDRA_REQUIRE(possible, where, ": found ", id.dump(), ", expected ids from 0 to ", INT32_MAX);
      ids.push_back(id.get<text::TokenId>());
    }
    return Json(tokenizer.decode(ids, skip_special)).dump();
  });
}

void print_report(const data::IngestReport& report, const Options& options) {
  std::cout << "lines read:        " << report.lines << "\ndocuments kept:    " << report.kept << "\n";
  for (const auto& [reason, lines] : report.skipped) {
    std::cout << "skipped:           " << lines.count << " (" << reason << ") at";
    for (const std::string& line : lines.first) {
      std::cout << " " << line;
    }
    std::cout << (lines.count > static_cast<std::int64_t>(lines.first.size()) ? " ...\n" : "\n");
  }
  if (options.ingest.max_tokens > 0) {
    std::cout << "over " << options.ingest.max_tokens << " tokens: " << report.long_documents << " ("
              << options.long_documents << ", " << report.dropped_tokens << " tokens dropped)\n";
  }
  std::cout << "documents written: " << report.documents << "\ntokens written:    " << report.tokens << " of "
            << report.bytes << " bytes of text\nfiles:             " << options.out << ".{bin,idx,json}\n";
}

void tokenize_files(const text::Tokenizer& tokenizer, Options& options) {
  HYDRA_REQUIRE(!options.inputs.empty() && !options.out.empty(),
                "tokenize: found no input or no --out, expected IN... and --out PREFIX (or --ids, --decode)");
  data::IngestOptions& ingest = options.ingest;
  ingest.format = options.format == "auto"    ? data::TextFormat::by_name
                  : options.format == "jsonl" ? data::TextFormat::jsonl
                                              : data::TextFormat::plain;
  ingest.long_documents = options.long_documents == "split"  ? data::LongDocuments::split
                          : options.long_documents == "drop" ? data::LongDocuments::drop
                                                             : data::LongDocuments::keep;
  ingest.parse_added_tokens = parse_special(options, false);
  if (options.end_token.empty()) {
    ingest.end_token = data::end_of_document(tokenizer, options.tokenizer);
  } else {
    const std::optional<text::TokenId> id = tokenizer.id_of(options.end_token);
    HYDRA_REQUIRE(id, "--end-token: found '", options.end_token, "', expected a token of ", options.tokenizer);
    ingest.end_token = *id;
  }
  std::unique_ptr<metrics::Progress> line;
  const data::IngestReport report = data::ingest(
      {options.inputs.begin(), options.inputs.end()}, tokenizer, options.out, ingest,
      [&](const data::IngestProgress& progress) {
        if (!line) {
          metrics::ProgressOptions shown;
          shown.title = "tokenize";
          shown.unit = "bytes";
          shown.total = progress.bytes_total;
          line = std::make_unique<metrics::Progress>(shown);
        }
        line->update(progress.bytes_done, metrics::count_text(static_cast<double>(progress.report.tokens)) + " tokens");
      });
  if (line) {
    line->finish();
  }
  print_report(report, options);
}

}  // namespace

void add_tokenize(CLI::App& app, int&) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("tokenize", "text files to token files (Megatron .bin/.idx)");
  verb->add_option("inputs", options->inputs, "JSONL or text files, plain or .gz, .xz, .zst");
  verb->add_option("--tokenizer", options->tokenizer, "directory with tokenizer.json")->required();
  verb->add_option("--out", options->out, "PREFIX of the files to write");
  verb->add_option("--workers", options->ingest.workers, "threads (0: one a core)")->check(integer_from(0, 1024));
  verb->add_option("--format", options->format, "auto (by extension), jsonl or text")
      ->check(one_of({"auto", "jsonl", "text"}))
      ->capture_default_str();
  verb->add_option("--field", options->ingest.field, "JSONL field with the text")->capture_default_str();
  verb->add_option("--max-tokens", options->ingest.max_tokens, "longest document, end token included (0: no limit)")
      ->check(integer_from(0));
  verb->add_option("--long", options->long_documents, "documents over --max-tokens: split, drop or keep")
      ->check(one_of({"split", "drop", "keep"}))
      ->capture_default_str();
  verb->add_option("--special-tokens", options->special_tokens,
                   "text that spells a special token: parse it (default of --ids) or leave it text (default of files)")
      ->check(one_of({"default", "parse", "text"}));
  verb->add_option("--end-token", options->end_token,
                   "token behind every document (default <|endoftext|>, else eos_token)");
  verb->add_option("--max-bad-share", options->ingest.max_bad_share, "largest share of malformed lines")
      ->check(number_from(0, 1))
      ->capture_default_str();
  CLI::Option* ids =
      verb->add_flag("--ids", options->ids, "one JSON string a line in, one JSON array of ids a line out");
  verb->add_flag("--decode", options->decode, "one JSON array of ids a line in, one JSON string a line out")
      ->excludes(ids);
  verb->add_flag("--skip-special", options->skip_special, "with --decode: leave special tokens out");
  verb->callback([options] {
    const text::Tokenizer tokenizer = text::Tokenizer::load(options->tokenizer);
    const bool filter = options->ids || options->decode;
    HYDRA_REQUIRE(!filter || (options->inputs.empty() && options->out.empty()),
                  "tokenize: --ids and --decode read standard input; found files or --out besides");
    if (options->ids) {
      print_ids(tokenizer, parse_special(*options, true));
    } else if (options->decode) {
      print_texts(tokenizer, options->skip_special);
    } else {
      tokenize_files(tokenizer, *options);
    }
  });
}

}  // namespace hydra::tools
