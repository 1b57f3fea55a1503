#pragma once
// Documents out of text files, one after the other in constant memory: JSONL (one object a line, its text in a field)
// or plain text (a file is a document), each as it is or compressed by gzip, xz or zstd (told apart by their first
// bytes).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/base/expected.hpp"

namespace hydra::data {

enum class TextFormat {
  by_name,
  jsonl,
  plain
};  // by_name: .jsonl, .ndjson, .json or .txt, .text, .md before .gz, .xz, .zst

// The lines of a file without their line ends, the byte order mark at its start dropped.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  std::optional<std::string_view> next();  // valid until the next call; a last line without a line end counts
  std::string rest();                      // everything not yet read
  std::int64_t bytes_consumed() const;     // of the file as it lies on disk, for progress

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The text of one JSONL line or of a plain file, or the reason for skipping it.
namespace skip {
inline constexpr std::string_view empty_line = "empty line";
inline constexpr std::string_view invalid_json = "not valid JSON";
inline constexpr std::string_view no_object = "not a JSON object";
inline constexpr std::string_view no_field = "text field missing";
inline constexpr std::string_view no_string = "text field is not a string";
inline constexpr std::string_view blank_text = "text is blank";
inline constexpr std::string_view too_long = "document is too long";
}  // namespace skip
Expected<std::string> text_of_line(std::string_view line, std::string_view field);
Expected<std::string> text_of_plain(std::string text);

// jsonl or plain; UserError naming the file if `format` is by_name and the name does not tell.
TextFormat format_of(const std::filesystem::path& path, TextFormat format);

// Every usable document of the files in order; unusable lines are passed over. For corpora that must be accounted for
// line by line, see jsonl_ingest.hpp.
class DocumentReader {
 public:
  explicit DocumentReader(std::vector<std::filesystem::path> paths, std::string field = "text");
  std::optional<std::string> next();

 private:
  std::vector<std::filesystem::path> paths_;
  std::string field_;
  std::size_t file_ = 0;
  std::optional<LineReader> lines_;
};

}  // namespace hydra::data
