// The tokenize verb as a user runs it: exit status, standard output, files left behind.

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "hydrahead/base/files.hpp"
#include "hydrahead/data/token_file.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra {
namespace {

const std::string nano = std::string(HYDRA_FIXTURES) + "/qwen3-nano";

test::ProcessResult run(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), {HYDRA_BINARY, "tokenize", "--tokenizer", nano});
  return test::run_process(arguments, {input, {}, {}});
}

TEST(TokenizeVerb, IdsAndDecodeAreInverse) {
  const test::ProcessResult ids = run({"--ids"}, "\"It is a truth.\\n<|im_end|>\"\n\"\"\n\"caf\\u00e9\"\n");
  EXPECT_EQ(ids.status, 0) << ids.err;
  const test::ProcessResult texts = run({"--decode"}, ids.out);
  EXPECT_EQ(texts.status, 0) << texts.err;
  EXPECT_EQ(texts.out, "\"It is a truth.\\n<|im_end|>\"\n\"\"\n\"caf\xC3\xA9\"\n");
  EXPECT_EQ(run({"--ids"}, "\"a\x80z\"\n").out, run({"--ids"}, "\"a\\ufffdz\"\n").out);  // malformed UTF-8
  const test::ProcessResult refused = run({"--ids"}, "\"fine\"\n17\n");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("line 2"), std::string::npos) << refused.err;
}

TEST(TokenizeVerb, WritesTokenFilesOnce) {
  const test::TempDir dir;
  const std::string corpus = (dir.path() / "corpus.jsonl").string(), prefix = (dir.path() / "out").string();
  std::ofstream(corpus) << "{\"text\": \"It is a truth.\"}\nnot JSON\n{\"text\": \"Universally.\"}\n";
  const test::ProcessResult refused = run({corpus, "--out", prefix, "--max-bad-share", "0.1"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("corpus.jsonl:2"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(prefix + ".bin"));

  EXPECT_EQ(run({corpus, "--out", prefix, "--max-bad-share", "0.5"}).status, 0);
  const data::TokenFile file = data::TokenFile::open(prefix);
  const text::Tokenizer tokenizer = text::Tokenizer::load(nano);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.type(), data::TokenType::uint16);
  EXPECT_EQ(file.tokenizer_sha256(), tokenizer.sha256());
  EXPECT_EQ(tokenizer.decode(file.read(1)), "Universally.<|endoftext|>");

  const test::ProcessResult again = run({corpus, "--out", prefix});
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
}

TEST(TokenizeVerb, RefusesWrongRequests) {
  const test::TempDir dir;
  const std::string prefix = (dir.path() / "out").string();
  EXPECT_EQ(run({"absent.jsonl", "--out", prefix}).status, 2);
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"--ids", "--decode"}).status, 2);
  EXPECT_EQ(run({"--ids", "--out", prefix}).status, 2);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace hydra
