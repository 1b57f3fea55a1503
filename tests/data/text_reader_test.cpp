#include "hydrahead/data/text_reader.hpp"

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::data {
namespace {

namespace fs = std::filesystem;

std::string gzip(const std::string& text) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&state, text.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

std::string xz(const std::string& text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                    text.size(), reinterpret_cast<std::uint8_t*>(packed.data()), &size, packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

fs::path put(const test::TempDir& dir, const std::string& name, const std::string& bytes) {
  std::ofstream(dir.path() / name, std::ios::binary) << bytes;
  return dir.path() / name;
}

std::vector<std::string> lines_of(const fs::path& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  while (const auto line = reader.next()) {
    lines.emplace_back(*line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(TextReader, Lines) {
  const test::TempDir dir;
  EXPECT_EQ(lines_of(put(dir, "a", "\xEF\xBB\xBFone\r\n\ntwo\nlast")), (Lines{"one", "", "two", "last"}));
  EXPECT_EQ(lines_of(put(dir, "b", "one\n")), (Lines{"one"}));
  EXPECT_EQ(lines_of(put(dir, "c", "")), Lines{});
  const std::string longer(5 << 20, 'x');
  EXPECT_EQ(lines_of(put(dir, "d", "a\n" + longer + "\nb")), (Lines{"a", longer, "b"}));
  EXPECT_THROW(LineReader(dir.path() / "absent"), UserError);
  EXPECT_THROW(LineReader{dir.path()}, UserError);
}

TEST(TextReader, CompressedFilesReadTheSame) {
  const test::TempDir dir;
  RandomStream random(1, 0);
  std::string text;
  while (text.size() < (3u << 20)) {
    text += std::string(random.below(50), static_cast<char>('a' + random.below(26))) + "\n";
  }
  const Lines expected = lines_of(put(dir, "plain", text));
  const std::string half = text.substr(0, text.size() / 2), rest = text.substr(text.size() / 2);
  int number = 0;
  for (const auto& pack : {gzip, xz, zstd}) {
    const std::string whole = pack(text), name = std::to_string(number++);
    EXPECT_EQ(lines_of(put(dir, name, whole)), expected);
    EXPECT_EQ(lines_of(put(dir, name + "two", pack(half) + pack(rest))), expected);  // members end to end
    EXPECT_THROW(lines_of(put(dir, name + "cut", whole.substr(0, whole.size() - 5))), UserError);
    std::string damaged = whole;
    damaged.replace(damaged.size() / 2, 16, std::string(16, '\x55'));
    EXPECT_THROW(lines_of(put(dir, name + "damaged", damaged)), UserError);
  }
}

TEST(TextReader, TextOfALine) {
  EXPECT_EQ(*text_of_line(R"({"id": {"text": "no"}, "text": "yes", "x": [{"text": 1}]})", "text"), "yes");
  EXPECT_EQ(*text_of_line(R"( {"text": "nul \u0000 in"} )", "text"), std::string("nul \0 in", 8));
  EXPECT_EQ(*text_of_line(R"({"body": "b", "text": 3})", "body"), "b");
  const std::vector<std::pair<std::string, std::string_view>> skipped = {
      {"", skip::empty_line},
      {"  ", skip::empty_line},
      {"{\"text\":\"bad \xFF byte\"}", skip::invalid_json},
      {R"({"text":"cut in the mid)", skip::invalid_json},
      {R"({"text":"lone \ud800 half"})", skip::invalid_json},
      {R"({"text":"a"} x)", skip::invalid_json},
      {"[1,2,3]", skip::no_object},
      {"17", skip::no_object},
      {R"([{"text":"a"}])", skip::no_object},
      {R"({"id":"x4"})", skip::no_field},
      {R"({"text":null})", skip::no_string},
      {R"({"text":["a"]})", skip::no_string},
      {R"({"text":{"text":"a"}})", skip::no_string},
      {R"({"text":""})", skip::blank_text},
      {R"({"text":" \n"})", skip::blank_text}};
  for (const auto& [line, reason] : skipped) {
    const auto text = text_of_line(line, "text");
    ASSERT_FALSE(text) << line;
    EXPECT_EQ(text.error(), reason) << line;
  }
}

TEST(TextReader, DocumentsOfSeveralFiles) {
  const test::TempDir dir;
  DocumentReader reader({put(dir, "a.jsonl.gz", gzip("{\"text\":\"1\"}\nbad\n{\"text\":\"2\"}\n")),
                         put(dir, "empty.txt", "\n"), put(dir, "b.txt", "two\nlines\n")});
  EXPECT_EQ(reader.next(), "1");
  EXPECT_EQ(reader.next(), "2");
  EXPECT_EQ(reader.next(), "two\nlines\n");
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_THROW(format_of("corpus.parquet", TextFormat::by_name), UserError);
  EXPECT_EQ(format_of("corpus.parquet", TextFormat::jsonl), TextFormat::jsonl);
}

}  // namespace
}  // namespace hydra::data
