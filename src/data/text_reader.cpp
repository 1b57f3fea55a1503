#include "hydrahead/data/text_reader.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "byte_stream.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/text/unicode.hpp"

namespace hydra::data {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// Takes one string field out of a JSON object without building the rest of it.
class FieldReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FieldReader(std::string_view field) : field_(field) {}

  bool is_object = false, found = false, is_string = false, valid = true;
  std::string text;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(std::int64_t) override { return other(); }
  bool number_unsigned(std::uint64_t) override { return other(); }
  bool number_float(double, const std::string&) override { return other(); }
  bool binary(nlohmann::json::binary_t&) override { return other(); }
  bool string(std::string& value) override {
    if (wanted()) {
      is_string = true;
      text = std::move(value);
    }
    return other();
  }
  bool start_object(std::size_t) override {
    is_object = is_object || depth_ == 0;
    other();
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    other();
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(std::string& name) override {
    at_field_ = depth_ == 1 && name == field_;
    if (at_field_) {  // of two fields of this name the last one counts
      found = true;
      is_string = false;
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    valid = false;
    return false;
  }

 private:
  bool wanted() const { return at_field_ && depth_ == 1; }
  bool other() {
    at_field_ = false;
    return true;
  }

  std::string_view field_;
  int depth_ = 0;
  bool at_field_ = false;
};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

}  // namespace

struct LineReader::Impl {
  std::unique_ptr<ByteStream> bytes;
  std::string buffer;
  std::size_t begin = 0;  // what was handed out
  bool ended = false;

  void read_block() {
    buffer.erase(0, begin);
    begin = 0;
    const std::size_t old = buffer.size();
    buffer.resize(old + block_bytes);
    const std::size_t count = bytes->read({buffer.data() + old, block_bytes});
    buffer.resize(old + count);
    ended = count < block_bytes;
  }
};

LineReader::LineReader(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->bytes = open_bytes(path);
  impl_->read_block();
  if (impl_->buffer.starts_with(byte_order_mark)) {
    impl_->begin = byte_order_mark.size();
  }
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

std::optional<std::string_view> LineReader::next() {
  std::size_t searched = 0;  // bytes behind `begin` without a line end
  while (true) {
    const std::size_t end = impl_->buffer.find('\n', impl_->begin + searched);
    if (end != std::string::npos || impl_->ended) {
      if (end == std::string::npos && impl_->begin == impl_->buffer.size()) {
        return std::nullopt;
      }
      std::string_view line = std::string_view(impl_->buffer).substr(impl_->begin, end - impl_->begin);
      impl_->begin = end == std::string::npos ? impl_->buffer.size() : end + 1;
      if (line.ends_with('\r')) {
        line.remove_suffix(1);
      }
      return line;
    }
    searched = impl_->buffer.size() - impl_->begin;
    impl_->read_block();
  }
}

std::string LineReader::rest() {
  while (!impl_->ended) {
    impl_->read_block();
  }
  std::string text = impl_->buffer.substr(impl_->begin);
  impl_->begin = impl_->buffer.size();
  return text;
}

std::int64_t LineReader::bytes_consumed() const { return impl_->bytes->consumed(); }

Expected<std::string> text_of_line(std::string_view line, std::string_view field) {
  if (is_blank(line)) {
    return ParseError{std::string(skip::empty_line)};
  }
  FieldReader reader(field);
  nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
  if (!reader.valid) {
    return ParseError{std::string(skip::invalid_json)};
  }
  if (!reader.is_object) {
    return ParseError{std::string(skip::no_object)};
  }
  if (!reader.found || !reader.is_string) {
    return ParseError{std::string(reader.found ? skip::no_string : skip::no_field)};
  }
  if (is_blank(reader.text)) {
    return ParseError{std::string(skip::blank_text)};
  }
  return std::move(reader.text);
}

Expected<std::string> text_of_plain(std::string text) {
  if (is_blank(text)) {
    return ParseError{std::string(skip::blank_text)};
  }
  return text;
}

TextFormat format_of(const std::filesystem::path& path, TextFormat format) {
  if (format != TextFormat::by_name) {
    return format;
  }
  std::filesystem::path name = path.filename();
  const std::string last = name.extension().string();
  if (last == ".gz" || last == ".xz" || last == ".zst") {
    name = name.stem();
  }
  const std::string kind = name.extension().string();
  if (kind == ".jsonl" || kind == ".ndjson" || kind == ".json") {
    return TextFormat::jsonl;
  }
  if (kind == ".txt" || kind == ".text" || kind == ".md") {
    return TextFormat::plain;
  }
  fail_request(path.string(), ": found the extension '", kind,
               "', expected .jsonl, .ndjson, .json, .txt, .text or .md (then .gz, .xz or .zst), or a given format");
}

DocumentReader::DocumentReader(std::vector<std::filesystem::path> paths, std::string field)
    : paths_(std::move(paths)), field_(std::move(field)) {}

std::optional<std::string> DocumentReader::next() {
  while (lines_ || file_ < paths_.size()) {
    if (!lines_) {
      lines_.emplace(paths_[file_++]);
      if (format_of(paths_[file_ - 1], TextFormat::by_name) == TextFormat::plain) {
        Expected<std::string> text = text_of_plain(lines_->rest());
        lines_.reset();
        if (text) {
          return std::move(*text);
        }
        continue;
      }
    }
    while (const std::optional<std::string_view> line = lines_->next()) {
      Expected<std::string> text = text_of_line(*line, field_);
      if (text) {
        return std::move(*text);
      }
    }
    lines_.reset();
  }
  return std::nullopt;
}

}  // namespace hydra::data
