#include "hydrahead/data/token_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<std::int32_t>;

std::string idx_of(const fs::path& prefix) { return read_file(prefix.string() + ".idx"); }

Expected<TokenIndex> parse(const std::string& idx, std::uint64_t bin_bytes) {
  return parse_token_index(std::as_bytes(std::span(idx)), bin_bytes);
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Megatron's layout, written out field by field.
std::string megatron_index(std::uint8_t dtype, const std::vector<std::int32_t>& lengths, std::int64_t width,
                           const std::vector<std::int64_t>& bounds) {
  std::string idx("MMIDIDX\0\0", 9);
  append<std::uint64_t>(idx, 1);
  append(idx, dtype);
  append<std::uint64_t>(idx, lengths.size());
  append<std::uint64_t>(idx, bounds.size());
  for (const std::int32_t length : lengths) {
    append(idx, length);
  }
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths) {
    append(idx, pointer);
    pointer += width * length;
  }
  for (const std::int64_t bound : bounds) {
    append(idx, bound);
  }
  return idx;
}

TEST(TokenFile, BytesAreMegatrons) {
  const test::TempDir dir;
  const fs::path narrow = dir.path() / "narrow", wide = dir.path() / "wide";
  for (const auto& [prefix, limit] : {std::pair(narrow, 65536), std::pair(wide, 65537)}) {
    TokenFileWriter writer(prefix, limit);
    writer.add_document(Ids{1, 2, 65535});
    writer.add_document(Ids{});
    writer.add_document(Ids{7});
    writer.commit({{"tokenizer_sha256", "abc"}});
  }
  EXPECT_EQ(idx_of(narrow), megatron_index(8, {3, 0, 1}, 2, {0, 1, 2, 3}));
  EXPECT_EQ(idx_of(wide), megatron_index(4, {3, 0, 1}, 4, {0, 1, 2, 3}));
  EXPECT_EQ(read_file(narrow.string() + ".bin"), std::string("\1\0\2\0\xFF\xFF\7\0", 8));
  EXPECT_EQ(read_file(wide.string() + ".bin"), std::string("\1\0\0\0\2\0\0\0\xFF\xFF\0\0\7\0\0\0", 16));
}

TEST(TokenFile, RoundTrip) {
  const test::TempDir dir;
  const fs::path prefix = dir.path() / "p";
  {
    TokenFileWriter writer(prefix, 70001);
    writer.add_document(Ids{5, 70000, 6});
    writer.add_document(Ids{8, 9});
    writer.commit({{"tokenizer_sha256", "abc"}, {"end_token", 9}});
  }
  TokenFile file = TokenFile::open(prefix);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.tokens(), 5);
  EXPECT_EQ(file.length(1), 2);
  EXPECT_EQ(file.read(0), (Ids{5, 70000, 6}));
  Ids part(2);
  file.read(0, 1, part);
  EXPECT_EQ(part, (Ids{70000, 6}));
  EXPECT_EQ(file.tokenizer_sha256(), "abc");
  EXPECT_EQ(file.largest_id(), 70000);
  EXPECT_EQ(read_json_file(prefix.string() + ".json")["end_token"], 9);
  EXPECT_NO_THROW(file.require_ids_below(70001));
  EXPECT_THROW(file.require_ids_below(512), UserError);  // before any token is read
  EXPECT_THROW(file.read(0, 2, part), Error);
}

TEST(TokenFile, FilesOfOtherToolsAreCheckedWhileReading) {
  const test::TempDir dir;
  const fs::path prefix = dir.path() / "p";
  // Two documents of several sequences, an empty document, no PREFIX.json.
  std::ofstream(prefix.string() + ".idx") << megatron_index(4, {2, 1, 3}, 4, {0, 2, 2, 3});
  const Ids ids{1, 2, 3, 600, 5, -1};
  std::ofstream(prefix.string() + ".bin").write(reinterpret_cast<const char*>(ids.data()), 24);
  TokenFile file = TokenFile::open(prefix);
  EXPECT_EQ(file.documents(), 3);
  EXPECT_EQ(file.read(0), (Ids{1, 2, 3}));
  EXPECT_EQ(file.read(1), Ids{});
  EXPECT_EQ(file.largest_id(), std::nullopt);
  EXPECT_THROW(file.read(2), UserError);  // -1
  Ids first(1);
  file.read(2, 0, first);
  EXPECT_EQ(first[0], 600);
  file.require_ids_below(512);
  EXPECT_THROW(file.read(2, 0, first), UserError);
}

TEST(TokenFile, OffsetsAre64Bit) {
  // 3 sequences of 2^30 tokens: the index alone, without 12 GiB of tokens.
  const std::int32_t long_length = 1 << 30;
  const auto index = parse(megatron_index(4, {long_length, long_length, long_length}, 4, {0, 1, 2, 3}), 12ull << 30);
  ASSERT_TRUE(index) << index.error();
  EXPECT_EQ(index->begin.back(), 3ll << 30);
}

TEST(TokenFile, RefusesBadIndexes) {
  const std::string good = megatron_index(4, {2, 1}, 4, {0, 1, 2});
  ASSERT_TRUE(parse(good, 12));
  EXPECT_FALSE(parse(good, 11));
  EXPECT_FALSE(parse(good, 16));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(parse(good.substr(0, size), 12)) << size;
  }
  EXPECT_FALSE(parse(good + "x", 12));
  EXPECT_FALSE(parse(megatron_index(5, {2, 1}, 4, {0, 1, 2}), 12));  // int64
  EXPECT_FALSE(parse(megatron_index(4, {2, -1}, 4, {0, 1, 2}), 4));
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 2, {0, 1, 2}), 12));     // pointers of another width
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 4, {0, 2, 1, 2}), 12));  // falling
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 4, {1, 2}), 12));
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 4, {0, 1}), 12));
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 4, {0, 1ll << 62}), 12));
  EXPECT_FALSE(parse(megatron_index(4, {2, 1}, 4, {}), 12));
  std::string huge = good;
  const std::uint64_t many = ~std::uint64_t{0} / 4;
  std::memcpy(huge.data() + 18, &many, 8);
  EXPECT_FALSE(parse(huge, 12));
}

TEST(TokenFile, NothingStaysWithoutCommitAndNothingIsReplaced) {
  const test::TempDir dir;
  const fs::path prefix = dir.path() / "p";
  {
    TokenFileWriter writer(prefix, 10);
    writer.add_document(Ids{1});
    EXPECT_THROW(writer.add_document(Ids{10}), Error);
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  std::ofstream(prefix.string() + ".idx") << "x";
  EXPECT_THROW(TokenFileWriter(prefix, 10), UserError);
  EXPECT_THROW(TokenFileWriter(dir.path() / "absent" / "p", 10), UserError);
}

TEST(TokenFile, RefusesAMixOfFiles) {
  const test::TempDir dir;
  for (const int count : {1, 2}) {
    TokenFileWriter writer(dir.path() / std::to_string(count), 10);
    writer.add_document(Ids(static_cast<std::size_t>(count), 3));
    writer.commit(Json::object());
  }
  fs::copy_file(dir.path() / "2.json", dir.path() / "1.json", fs::copy_options::overwrite_existing);
  EXPECT_THROW(TokenFile::open(dir.path() / "1"), UserError);
  fs::copy_file(dir.path() / "2.idx", dir.path() / "1.idx", fs::copy_options::overwrite_existing);
  EXPECT_THROW(TokenFile::open(dir.path() / "1"), UserError);
  EXPECT_THROW(TokenFile::open(dir.path() / "3"), UserError);
}

}  // namespace
}  // namespace hydra::data
