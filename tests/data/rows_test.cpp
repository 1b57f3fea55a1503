// Training rows: windows of token files, the mixture's order, retrieval rows, the config's sources, the loader.

#include "hydrahead/data/rows.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "hydrahead/base/error.hpp"
#include "hydrahead/data/loader.hpp"
#include "hydrahead/data/token_file.hpp"
#include "src/data/schedule.hpp"
#include "src/data/token_windows.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/prose.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using test::nano_tokenizer;
using test::refusal;
constexpr std::int64_t nano_rows = 4096;
constexpr text::TokenId end_token = 4093;

// --- order
// ------------------------------------------------------------------------------------------------------------

TEST(Schedule, PermutationVisitsEachValueOnceAndDiffersByEpoch) {
  for (const std::uint64_t n : {1u, 2u, 3u, 10u, 1000u, 4097u}) {
    std::vector<std::vector<std::uint64_t>> orders;
    for (const std::uint64_t epoch : {0u, 1u}) {
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < n; ++i) {
        order.push_back(permuted(i, n, 7, epoch));
      }
      orders.push_back(order);
      std::sort(order.begin(), order.end());
      for (std::uint64_t i = 0; i < n; ++i) {
        ASSERT_EQ(order[i], i);
      }
    }
    if (n >= 10) {
      EXPECT_NE(orders[0], orders[1]);
      EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
    }
  }
}

TEST(Schedule, SharesAreExactInEveryBlockAndOrdinalsCount) {
  const MixtureSchedule schedule({0.4, 0.6}, 3);
  EXPECT_EQ(schedule.quotas(), (std::vector<std::uint32_t>{2, 3}));
  std::vector<std::uint64_t> next{0, 0};
  std::set<std::string> orders;
  for (std::uint64_t block = 0; block < 40; ++block) {
    std::string order;
    for (std::uint64_t i = 0; i < 5; ++i) {
      const auto pick = schedule.pick(5 * block + i);
      EXPECT_EQ(pick.ordinal, next[pick.source]++);
      order += static_cast<char>('0' + pick.source);
    }
    EXPECT_EQ(std::count(order.begin(), order.end(), '0'), 2);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 4u);
}

TEST(Schedule, AnyWeightsGetTheirShare) {
  EXPECT_EQ(MixtureSchedule({5.0}, 0).quotas(), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(MixtureSchedule({1, 1, 1}, 0).quotas(), (std::vector<std::uint32_t>{1, 1, 1}));
  EXPECT_EQ(MixtureSchedule({0.37, 0.63}, 0).quotas(), (std::vector<std::uint32_t>{37, 63}));
  const auto odd = MixtureSchedule({3.14159, 2.71828, 0.0001}, 0).quotas();
  EXPECT_EQ(std::accumulate(odd.begin(), odd.end(), 0u), 1000u);
  EXPECT_EQ(odd[2], 1u);
  EXPECT_NEAR(odd[0], 536, 1);
}

// --- windows
// ----------------------------------------------------------------------------------------------------------

struct Documents {
  test::TempDir dir;
  std::vector<std::vector<std::int32_t>> ids;
  fs::path prefix() const { return dir.path() / "tokens"; }

  // Documents of these lengths, each ending with the end token if `ended`; ids count up, so that every token is known.
  Documents(const std::vector<int>& lengths, bool ended, const Json& about = Json::object()) {
    TokenFileWriter writer(prefix(), nano_rows);
    std::int32_t next = 1;
    for (const int length : lengths) {
      ids.emplace_back();
      for (int i = 0; i < length; ++i) {
        ids.back().push_back(ended && i + 1 == length ? end_token : next++);
      }
      writer.add_document(ids.back());
    }
    writer.commit(about);
  }
  TokenWindows windows(std::int64_t context, Packing packing) const {
    std::vector<TokenFile> files;
    files.push_back(TokenFile::open(prefix()));
    return TokenWindows("docs", std::move(files), context, packing, end_token, 5);
  }
};

std::vector<std::int32_t> joined(const std::vector<std::vector<std::int32_t>>& documents) {
  std::vector<std::int32_t> all;
  for (const auto& document : documents) {
    all.insert(all.end(), document.begin(), document.end());
  }
  return all;
}

TEST(TokenWindows, AreTheStreamCutEveryContextTokens) {
  const Documents documents({5, 0, 1, 12, 3, 0, 9}, true);
  const TokenWindows windows = documents.windows(8, Packing::reset);
  const std::vector<std::int32_t> stream = joined(documents.ids);
  EXPECT_EQ(windows.tokens(), 30);
  EXPECT_EQ(windows.full_windows(), 3);
  std::vector<std::int32_t> seen;
  for (std::int64_t w = 0; w < 4; ++w) {
    const Row row = windows.window(w);
    EXPECT_EQ(std::accumulate(row.lengths.begin(), row.lengths.end(), std::int64_t{0}), std::ssize(row.ids));
    EXPECT_EQ(row.lengths.size(), row.documents.size());
    seen.insert(seen.end(), row.ids.begin(), row.ids.end());
    for (std::size_t i = 0; i < row.ids.size(); ++i) {  // the next token of the same document, across windows too
      const std::size_t at = static_cast<std::size_t>(8 * w) + i;
      EXPECT_EQ(row.labels[i], stream[at] == end_token ? -1 : stream[at + 1]) << at;
    }
  }
  EXPECT_EQ(seen, stream);
  EXPECT_EQ(windows.window(0).lengths, (std::vector<std::int64_t>{5, 1, 2}));
  EXPECT_EQ(windows.window(0).documents, (std::vector<std::string>{"docs:0", "docs:2", "docs:3"}));
  EXPECT_EQ(windows.window(1).lengths, (std::vector<std::int64_t>{8}));
}

TEST(TokenWindows, JoinedDocumentsAreOneText) {
  const Documents documents({5, 0, 1, 12, 3}, true);
  const TokenWindows windows = documents.windows(8, Packing::eos_join);
  const std::vector<std::int32_t> stream = joined(documents.ids);
  const Row row = windows.window(0);
  EXPECT_EQ(row.lengths, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(row.documents, (std::vector<std::string>{"docs:0-3"}));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(row.labels[i], stream[i + 1]);
  }
  EXPECT_EQ(windows.window(2).labels.back(), -1);  // the end of the stream
}

TEST(TokenWindows, DocumentsWithoutEndTokensGetThem) {
  const Documents documents({2, 0, 3}, false);
  const TokenWindows windows = documents.windows(7, Packing::reset);
  const Row row = windows.window(0);
  EXPECT_EQ(row.ids, (std::vector<std::int32_t>{1, 2, end_token, 3, 4, 5, end_token}));
  EXPECT_EQ(row.labels, (std::vector<std::int32_t>{2, end_token, -1, 4, 5, end_token, -1}));
}

TEST(TokenWindows, AnEpochHasEachWindowOnce) {
  const Documents documents(std::vector<int>(50, 13), true);
  const TokenWindows windows = documents.windows(8, Packing::reset);
  const auto n = static_cast<std::uint64_t>(windows.full_windows());
  std::vector<std::set<std::vector<std::int32_t>>> epochs(2);
  std::vector<std::vector<std::int32_t>> order[2];
  for (std::uint64_t i = 0; i < 2 * n; ++i) {
    epochs[i / n].insert(windows.row(i).ids);
    order[i / n].push_back(windows.row(i).ids);
  }
  EXPECT_EQ(epochs[0].size(), n);
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_NE(order[0], order[1]);
}

// --- sources of a config
// ----------------------------------------------------------------------------------------------

// A cache of its own, with or without essay text.
class Rows : public testing::Test {
 protected:
  void SetUp() override {
    const char* before = ::getenv("XDG_CACHE_HOME");
    old_cache_ = before == nullptr ? "" : before;
    ::setenv("XDG_CACHE_HOME", dir_.path().c_str(), 1);
  }
  void TearDown() override {
    old_cache_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", old_cache_.c_str(), 1);
  }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.path() / name) << text;
    return dir_.path() / name;
  }
  static DataConfig books(const fs::path& path) {
    DataConfig config;
    config.sources["books"].path = path;
    return config;
  }
  static std::unique_ptr<RowSource> make(const DataConfig& config, std::int64_t context = 512,
                                         Packing packing = Packing::reset, std::int64_t vocab = nano_rows,
                                         std::uint64_t seed = 1) {
    return make_rows(config, context, packing, nano_tokenizer(), vocab, seed);
  }

  test::TempDir dir_;
  std::string old_cache_;
};

TEST_F(Rows, TextIsTokenizedOnceAndAgainWhenItChanges) {
  const fs::path file = write("book.txt", test::make_prose(3000, 2));
  const Row row = make(books(file))->row(0);
  ASSERT_EQ(row.ids.size(), 512u);
  const auto entries = [&] {
    std::map<fs::path, fs::file_time_type> found;
    for (const auto& entry : fs::directory_iterator(dir_.path() / "hydrahead" / "tokens")) {
      if (entry.path().extension() == ".bin") {
        found[entry.path()] = fs::last_write_time(entry.path());
      }
    }
    return found;
  };
  const auto first = entries();
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(make(books(file))->row(0).ids, row.ids);
  EXPECT_EQ(entries(), first);
  write("book.txt", test::make_prose(3000, 3));
  EXPECT_NE(make(books(file))->row(0).ids, row.ids);
  EXPECT_EQ(entries().size(), 2u);
}

TEST_F(Rows, FoldersHoldTextsAndTokenFiles) {
  fs::create_directory(dir_.path() / "mix");
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += Json{{"text", test::make_prose(200, 100 + i)}}.dump() + "\n";
  }
  write("mix/a.jsonl", lines);
  write("mix/b.txt", test::make_prose(4000, 7));
  write("mix/readme.pdf", "no text");
  {
    TokenFileWriter writer(dir_.path() / "mix" / "c", nano_rows);
    writer.add_document(std::vector<std::int32_t>(600, 17));
    writer.commit({{"tokenizer_sha256", nano_tokenizer().sha256()}});
  }
  const auto rows = make(books(dir_.path() / "mix"), 256);
  std::set<std::string> documents;
  bool saw_token_file = false;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Row row = rows->row(i);
    documents.insert(row.documents.begin(), row.documents.end());
    saw_token_file = saw_token_file || std::count(row.ids.begin(), row.ids.end(), 17) > 200;
  }
  EXPECT_TRUE(saw_token_file);
  EXPECT_GT(documents.size(), 30u);
}

TEST_F(Rows, RefusalsNameTheSourceAndTheNumbers) {
  EXPECT_NE(refusal([&] { make(DataConfig{}); }).find("data.sources"), std::string::npos);
  EXPECT_NE(refusal([&] { make(books(dir_.path() / "none")); }).find("data.sources.books"), std::string::npos);

  const std::string little = refusal([&] { make(books(write("three.txt", "a b c"))); });
  EXPECT_NE(little.find("holds 4 tokens; one row needs 512"), std::string::npos) << little;

  const Documents other({600}, true, {{"tokenizer_sha256", std::string(64, '0')}});
  EXPECT_NE(refusal([&] { make(books(other.prefix())); }).find("tokenizer"), std::string::npos);

  const Documents far({600}, false);
  const std::string beyond = refusal([&] { make(books(far.prefix()), 512, Packing::reset, 512)->row(0); });
  EXPECT_NE(beyond.find("512"), std::string::npos);
}

TEST_F(Rows, AMixtureIsAFunctionOfSeedAndIndex) {
  DataConfig config = books(write("book.txt", test::make_prose(30000, 2)));
  config.sources["books"].weight = 0.4;
  config.sources["needles"].synthetic = Synthetic::retrieval;
  config.sources["needles"].weight = 0.6;
  const auto rows = make(config), again = make(config), reseeded = make(config, 512, Packing::reset, nano_rows, 2);
  int needles = 0, differing = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::uint64_t index = (7 * i) % 50;  // in any order
    const Row row = rows->row(index);
    EXPECT_EQ(row.ids, again->row(index).ids);
    EXPECT_EQ(row.labels, again->row(index).labels);
    differing += row.ids != reseeded->row(index).ids;
    needles += row.documents.front().starts_with("needles:");
    EXPECT_LE(row.ids.size(), 512u);
    EXPECT_EQ(row.ids.size(), row.labels.size());
  }
  EXPECT_EQ(needles, 30);
  EXPECT_EQ(differing, 50);
}

// The essay text of retrieval rows: what is cached for `eval niah` may be held out, so the run's own text comes first.
class BorrowedEssay : public Rows {
 protected:
  void SetUp() override {
    Rows::SetUp();
    fs::create_directory(dir_.path() / "hydrahead");
    write("hydrahead/austen.txt", marked("Quixotically", 5));
  }
  // Prose in which every fifth word is `marker`.
  static std::string marked(const std::string& marker, std::uint64_t seed) {
    std::string text;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      text += test::make_prose(4, 1000 * seed + i) + " " + marker + " ";
    }
    return text;
  }
  static std::string retrieval_text(DataConfig config) {
    config.sources["needles"].synthetic = Synthetic::retrieval;
    const auto rows = make(config);
    std::string text;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Row row = rows->row(i);
      text += row.documents.front().starts_with("needles:") ? nano_tokenizer().decode(row.ids) : "";
    }
    return text;
  }
  static bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }
};

TEST_F(BorrowedEssay, IsTheRunsOwnTextAndNotTheCachedOne) {
  DataConfig config = books(write("books.txt", marked("Zanzibar", 6)));
  config.sources["letters"].path = write("letters.txt", marked("Yggdrasil", 7));
  const std::string text = retrieval_text(config);
  EXPECT_FALSE(has(text, "Quixotically"));
  EXPECT_TRUE(has(text, "Zanzibar"));
  EXPECT_TRUE(has(text, "Yggdrasil"));
}

TEST_F(BorrowedEssay, IsDecodedFromTokenFiles) {
  {
    TokenFileWriter writer(dir_.path() / "tokens", nano_rows);
    for (std::uint64_t document = 0; document < 4; ++document) {
      auto ids = nano_tokenizer().encode(marked("Zanzibar", 10 + document));
      ids.push_back(end_token);
      writer.add_document(ids);
    }
    writer.commit({{"tokenizer_sha256", nano_tokenizer().sha256()}});
  }
  const std::string text = retrieval_text(books(dir_.path() / "tokens"));
  EXPECT_FALSE(has(text, "Quixotically"));
  EXPECT_TRUE(has(text, "Zanzibar"));
}

TEST_F(BorrowedEssay, IsTheCachedOneWithoutTextSources) { EXPECT_TRUE(has(retrieval_text({}), "Quixotically")); }

TEST_F(Rows, ValidationIsTheStartOfTheTextInOrder) {
  ValidationConfig config;
  EXPECT_TRUE(validation_rows(config, 128, Packing::reset, nano_tokenizer(), nano_rows).empty());
  config.path = write("held.txt", test::make_prose(2000, 4));
  config.tokens = 512;
  const auto rows = validation_rows(config, 128, Packing::reset, nano_tokenizer(), nano_rows);
  ASSERT_EQ(rows.size(), 4u);
  std::vector<std::int32_t> ids;
  for (const Row& row : rows) {
    ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  }
  auto expected = nano_tokenizer().encode(test::make_prose(2000, 4));
  expected.resize(512);
  EXPECT_EQ(ids, expected);
}

// --- loader
// -----------------------------------------------------------------------------------------------------------

class CountingRows : public RowSource {
 public:
  Row row(std::uint64_t index) const override {
    HYDRA_REQUIRE(index < 20, "row ", index, " is damaged");
    Row row;
    row.ids = {static_cast<std::int32_t>(index)};
    return row;
  }
};

TEST(RowLoader, GivesBatchesInOrderAndThenTheError) {
  const CountingRows rows;
  const auto two_each = [](std::uint64_t batch) { return std::vector<std::uint64_t>{2 * batch, 2 * batch + 1}; };
  RowLoader loader(rows, two_each, 3, 2);
  for (std::int32_t batch = 3; batch < 10; ++batch) {
    const std::vector<Row> next = loader.next();
    ASSERT_EQ(next.size(), 2u);
    EXPECT_EQ(next[0].ids[0], 2 * batch);
    EXPECT_EQ(next[1].ids[0], 2 * batch + 1);
  }
  EXPECT_EQ(refusal([&] { loader.next(); }), "row 20 is damaged");
  EXPECT_EQ(refusal([&] { loader.next(); }), "row 20 is damaged");
}

TEST(RowLoader, StopsWhileItsQueueIsFull) {
  const CountingRows rows;
  const RowLoader loader(
      rows, [](std::uint64_t) { return std::vector<std::uint64_t>{1}; }, 0, 2);
}

}  // namespace
}  // namespace hydra::data
