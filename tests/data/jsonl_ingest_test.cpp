#include "hydrahead/data/jsonl_ingest.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/data/token_file.hpp"
#include "tests/support/small_tokenizer.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::data {
namespace {

using Ids = std::vector<std::int32_t>;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer made =
      text::Tokenizer::parse(test::small_tokenizer({{70000, "<|far|>"}}).dump()).value_or_fail("tokenizer");
  return made;
}

constexpr text::TokenId end_token = 259;

std::string sentence(RandomStream& random, int words) {
  constexpr const char* known[] = {"amber", "boats", "carry", "the", "quiet", "lamps", "over", "seven", "rivers"};
  std::string text;
  for (int i = 0; i < words; ++i) {
    text += (i > 0 ? " " : "") + std::string(known[random.below(9)]);
  }
  return text + ".";
}

// A corpus with everything that goes wrong in real ones.
struct DirtyCorpus {
  std::vector<std::string> lines;
  std::vector<std::string> texts;  // of the lines that are documents, in order

  void document(const std::string& id, const std::string& text) {
    lines.push_back(Json{{"id", id}, {"text", text}}.dump());
    texts.push_back(text);
  }
  DirtyCorpus() {
    RandomStream random(2, 0);
    for (int i = 0; i < 5; ++i) {
      document("g" + std::to_string(i), sentence(random, 20));
    }
    lines[0] = "\xEF\xBB\xBF" + lines[0];  // byte order mark
    for (const char* line :
         {"{\"id\":\"x1\",\"text\":\"bad \xFF\xFE byte\"}", R"({"id":"x2","text":""})", R"({"id":"x3","text":"   "})",
          "[1,2,3]", "17", R"({"id":"x4"})", R"({"id":"x5","text":null})", ""}) {
      lines.emplace_back(line);
    }
    document("x6", std::string("nul \0 in", 8));
    lines.emplace_back(R"({"id":"x7","text":"lone \ud800 half"})");
    document("x8", "cafe\xCC\x81 \xF0\x9F\x90\x9F \xE4\xB8\x89 \xE0\xA5\xA7\xE0\xA5\xA8");
    document("x9", "say <|endoftext|> and <|im_end|> aloud");
    document("x10", std::string(3'000'000, 'a'));
    document("x11", sentence(random, 40'000));
    lines.push_back(lines[3] + "\r");
    texts.push_back(texts[3]);
    for (int i = 5; i < 50; ++i) {
      document("g" + std::to_string(i), sentence(random, 20));
    }
    lines.emplace_back(R"({"id":"x12","text":"cut in the mid)");
  }

  fs::path write(const fs::path& path) const {
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      out << (i > 0 ? "\n" : "") << lines[i];
    }
    return path;
  }

  Ids all_ids() const {
    Ids ids;
    for (const std::string& text : texts) {
      const Ids one = tokenizer().encode(text, {.parse_added_tokens = false});
      ids.insert(ids.end(), one.begin(), one.end());
      ids.push_back(end_token);
    }
    return ids;
  }
};

const DirtyCorpus& dirty() {
  static const DirtyCorpus corpus;
  return corpus;
}

IngestOptions options_with(int workers) {
  IngestOptions options;
  options.end_token = end_token;
  options.workers = workers;
  return options;
}

Ids all_tokens(const TokenFile& file) {
  Ids ids;
  for (std::int64_t d = 0; d < file.documents(); ++d) {
    const Ids one = file.read(d);
    ids.insert(ids.end(), one.begin(), one.end());
  }
  return ids;
}

TEST(JsonlIngest, DirtyCorpusIsAccountedForLineByLine) {
  const test::TempDir dir;
  const fs::path corpus = dirty().write(dir.path() / "dirty.jsonl"), prefix = dir.path() / "out";
  const IngestReport report = ingest({corpus}, tokenizer(), prefix, options_with(2));
  EXPECT_EQ(report.lines, static_cast<std::int64_t>(dirty().lines.size()));
  EXPECT_EQ(report.kept, static_cast<std::int64_t>(dirty().texts.size()));
  std::int64_t skipped = 0;
  for (const auto& [reason, lines] : report.skipped) {
    skipped += lines.count;
    EXPECT_EQ(static_cast<std::int64_t>(lines.first.size()), lines.count) << reason;
  }
  EXPECT_EQ(report.kept + skipped, report.lines);
  const auto at = [&](int line) { return corpus.string() + ":" + std::to_string(line); };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(report.skipped.at("not valid JSON").first, (Lines{at(6), at(15), at(static_cast<int>(report.lines))}));
  EXPECT_EQ(report.skipped.at("text is blank").first, (Lines{at(7), at(8)}));
  EXPECT_EQ(report.skipped.at("not a JSON object").first, (Lines{at(9), at(10)}));
  EXPECT_EQ(report.skipped.at("text field missing").first, Lines{at(11)});
  EXPECT_EQ(report.skipped.at("text field is not a string").first, Lines{at(12)});
  EXPECT_EQ(report.skipped.at("empty line").first, Lines{at(13)});

  const TokenFile file = TokenFile::open(prefix);
  EXPECT_EQ(file.type(), TokenType::int32);  // id 70000 needs it
  EXPECT_EQ(file.documents(), report.kept);
  EXPECT_EQ(file.tokens(), report.tokens);
  EXPECT_EQ(file.tokenizer_sha256(), tokenizer().sha256());
  const Ids ids = all_tokens(file);
  EXPECT_EQ(ids, dirty().all_ids());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end_token), report.kept);  // x9's stays text
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 261), 0);
}

TEST(JsonlIngest, SameBytesForAnyNumberOfWorkers) {
  const test::TempDir dir;
  const fs::path corpus = dirty().write(dir.path() / "dirty.jsonl");
  for (const int workers : {1, 4}) {
    ingest({corpus, corpus}, tokenizer(), dir.path() / std::to_string(workers), options_with(workers));
  }
  for (const char* suffix : {".bin", ".idx", ".json"}) {
    EXPECT_EQ(read_file(dir.path() / ("1" + std::string(suffix))), read_file(dir.path() / ("4" + std::string(suffix))));
  }
}

TEST(JsonlIngest, LongDocumentsAreSplitDroppedOrKept) {
  const test::TempDir dir;
  const fs::path corpus = dirty().write(dir.path() / "dirty.jsonl");
  IngestOptions options = options_with(2);
  options.max_tokens = 512;
  const IngestReport split = ingest({corpus}, tokenizer(), dir.path() / "split", options);
  EXPECT_EQ(split.long_documents, 2);  // x10, x11
  const TokenFile parts = TokenFile::open(dir.path() / "split");
  EXPECT_EQ(all_tokens(parts), dirty().all_ids());  // nothing lost
  EXPECT_GT(parts.documents(), split.kept);
  for (std::int64_t d = 0; d < parts.documents(); ++d) {
    ASSERT_LE(parts.length(d), 512);
    ASSERT_GT(parts.length(d), 0);
  }

  options.long_documents = LongDocuments::drop;
  const IngestReport drop = ingest({corpus}, tokenizer(), dir.path() / "drop", options);
  EXPECT_EQ(drop.skipped.at("document is too long").count, 2);
  EXPECT_EQ(drop.kept, split.kept - 2);
  EXPECT_EQ(drop.tokens + drop.dropped_tokens, split.tokens);

  options.long_documents = LongDocuments::keep;
  const IngestReport keep = ingest({corpus}, tokenizer(), dir.path() / "keep", options);
  EXPECT_EQ(keep.documents, keep.kept);
  EXPECT_EQ(keep.tokens, split.tokens);
}

TEST(JsonlIngest, TooManyBadLinesFailAndLeaveNothing) {
  const test::TempDir dir;
  const fs::path corpus = dirty().write(dir.path() / "dirty.jsonl");
  IngestOptions options = options_with(2);
  options.max_bad_share = 0.05;
  try {
    ingest({corpus}, tokenizer(), dir.path() / "out", options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("dirty.jsonl:6"), std::string::npos) << error.what();
  }
  std::ofstream(dir.path() / "blank.jsonl") << "\n\n";
  EXPECT_THROW(ingest({dir.path() / "blank.jsonl"}, tokenizer(), dir.path() / "out", options), UserError);
  EXPECT_THROW(ingest({dir.path() / "absent.jsonl"}, tokenizer(), dir.path() / "out", options), UserError);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2);
}

TEST(JsonlIngest, ASignalStopsItAndLeavesNothing) {
  const test::TempDir dir;
  const fs::path corpus = dirty().write(dir.path() / "dirty.jsonl");
  request_stop();
  EXPECT_THROW(ingest({corpus}, tokenizer(), dir.path() / "out", options_with(1)), Interrupted);
  clear_stop_request();
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

TEST(JsonlIngest, SpecialTokensOnlyWhenAskedFor) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "far.jsonl") << R"({"text":"go <|far|> on"})"
                                          << "\n";
  IngestOptions options = options_with(1);
  options.parse_added_tokens = true;
  ingest({dir.path() / "far.jsonl"}, tokenizer(), dir.path() / "far", options);
  EXPECT_EQ(TokenFile::open(dir.path() / "far").read(0), (Ids{'g', 'o', ' ', 70000, ' ', 'o', 'n', 259}));
}

TEST(JsonlIngest, PlainTextIsOneDocumentAFile) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "a.txt") << "the\n\nthe";
  const IngestReport report = ingest({dir.path() / "a.txt"}, tokenizer(), dir.path() / "a", options_with(1));
  EXPECT_EQ(report.lines, 1);
  EXPECT_EQ(TokenFile::open(dir.path() / "a").read(0), (Ids{257, '\n', '\n', 257, 259}));
}

TEST(JsonlIngest, EndToken) {
  const test::TempDir dir;
  EXPECT_EQ(end_of_document(tokenizer(), dir.path()), 259);
  Json root = test::small_tokenizer();
  root["added_tokens"][0]["content"] = "</s>";
  const text::Tokenizer other = text::Tokenizer::parse(root.dump()).value_or_fail("tokenizer");
  EXPECT_THROW(end_of_document(other, dir.path()), UserError);
  std::ofstream(dir.path() / "tokenizer_config.json") << R"({"eos_token": {"content": "</s>"}})";
  EXPECT_EQ(end_of_document(other, dir.path()), 259);
}

}  // namespace
}  // namespace hydra::data
