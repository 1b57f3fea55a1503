// The strict reader on a small tree: scalars, structure, overrides, paths, messages, and the way back to YAML.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/config/binder.hpp"
#include "tests/support/temp_dir.hpp"

namespace sample {

using hydra::config::Binder;

enum class Colour { red, blue };

struct Rate {
  double peak = 1e-3;
  std::int64_t warmup = 50;
};
void describe(Binder& binder, Rate& value) {
  binder.field("peak", value.peak, {.text = "Peak.", .min = 0, .max = 1});
  binder.field("warmup", value.warmup, {.text = "Warm-up.", .unit = "steps", .min = 0});
}

struct Source {
  std::filesystem::path path;
  double weight = 1;
};
void describe(Binder& binder, Source& value) {
  binder.path("path", value.path, {"Text."});
  binder.field("weight", value.weight, {.text = "Share.", .min = 0});
}

struct Stage {
  std::optional<std::int64_t> tokens = std::nullopt;
  Rate rate = {};
};
void describe(Binder& binder, Stage& value) {
  binder.token_count("tokens", value.tokens, {.text = "Tokens.", .unit = "tokens", .min = 1});
  binder.section("rate", value.rate, "Rate.");
  binder.require(value.tokens.has_value(), "tokens", "expected `tokens`");
}

struct Tree {
  bool flag = false;
  std::int64_t count = 7;
  std::string name = "x";
  Colour colour = Colour::red;
  std::vector<Colour> colours = {Colour::blue};
  std::vector<std::int64_t> lengths = {1, 2, 3};
  std::vector<std::int64_t> samples = {10};
  std::vector<std::vector<std::int64_t>> pairs;
  std::int64_t micro_batch = -1;
  std::optional<double> bias;
  std::string layers = "even";
  std::vector<std::int64_t> layer_list;
  std::filesystem::path out = "out";
  Rate rate;
  std::optional<Stage> stage;
  std::map<std::string, Source> sources;
};
void describe(Binder& binder, Tree& value) {
  binder.field("flag", value.flag, {"A flag."});
  binder.field("count", value.count, {.text = "A count.", .min = 0, .max = 1e6});
  binder.field("name", value.name, {"A name."});
  binder.choice("colour", value.colour, {{Colour::red, "red"}, {Colour::blue, "blue"}}, {"A colour."});
  binder.choices("colours", value.colours, {{Colour::red, "red"}, {Colour::blue, "blue"}}, {"Colours."});
  binder.field("lengths", value.lengths, {.text = "Lengths.", .min = 1});
  binder.one_or_list("samples", value.samples, {.text = "Samples.", .min = 1});
  binder.field("pairs", value.pairs, {"Pairs."});
  binder.integer_or_word("micro_batch", value.micro_batch, {{-1, "auto"}}, {.text = "Rows.", .min = 1});
  binder.number_or_word("bias", value.bias, "none", {"Bias."});
  binder.list_or_word("layers", value.layers, value.layer_list, {"even", "scores"}, {"Layers."});
  binder.path("out", value.out, {"Output."});
  binder.section("rate", value.rate, "The rate.");
  binder.optional_section("stage", value.stage, "A stage.");
  binder.named_sections("sources", value.sources, "Sources.");
}

}  // namespace sample

namespace {

using sample::Colour;
using sample::Tree;

Tree read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Tree tree;
  hydra::config::read_yaml_text(text, "/etc/run/run.yaml", overrides,
                                [&](hydra::config::Binder& binder) { describe(binder, tree); });
  return tree;
}

// The message of the refusal; empty when there is none.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const hydra::UserError& error) {
    return error.what();
  }
  return "";
}

std::string written(Tree tree) {
  return hydra::config::write_yaml([&](hydra::config::Binder& binder) { describe(binder, tree); });
}

#define EXPECT_CONTAINS(text, part)                                       \
  do {                                                                    \
    const std::string whole = (text);                                     \
    EXPECT_NE(whole.find(part), std::string::npos) << "found: " << whole; \
  } while (false)

TEST(Scalars, NumbersInAllUsualSpellings) {
  for (const char* text : {"1e-4", "1.0e-4", "1E-4", ".0001", "0.0001"}) {
    EXPECT_EQ(read(std::string("rate: {peak: ") + text + "}").rate.peak, 1e-4) << text;
  }
  EXPECT_EQ(refusal("rate:\n  peak: \"1e-4\""),
            "/etc/run/run.yaml:2: rate.peak: found the quoted text \"1e-4\", expected a number from 0 to 1");
}

TEST(Scalars, Counts) {
  for (const char* text : {"1_000", "1000.0", "1e3", "1000", "+1000"}) {
    EXPECT_EQ(read(std::string("count: ") + text).count, 1000) << text;
  }
  for (const char* text :
       {"010", "0x10", "\"12\"", "12:30", "",       "~",     ".inf", "-1", "99999999999999999999", "1.5", "1__0", "_1",
        "1_",  "nan",  "true",   "[1]",   "{a: 1}", "1e400", "0o17", "1 2"}) {
    const std::string message = refusal(std::string("count: ") + text);
    EXPECT_CONTAINS(message, "/etc/run/run.yaml:1: count: found ");
    EXPECT_CONTAINS(message, "expected an integer from 0 to 1e+06");
  }
}

TEST(Scalars, FlagsNamesAndWords) {
  EXPECT_TRUE(read("flag: true").flag);
  for (const char* text : {"yes", "on", "True", "\"true\"", "1", "~"}) {
    EXPECT_CONTAINS(refusal(std::string("flag: ") + text), "expected true or false");
  }
  EXPECT_EQ(read("name: no").name, "no");
  EXPECT_EQ(read("name: 1.10").name, "1.10");
  EXPECT_EQ(read("name: 'null'").name, "null");
  EXPECT_CONTAINS(refusal("name: null"), "name: found nothing, expected text (the word null in quotes)");
  EXPECT_EQ(read("colour: blue").colour, Colour::blue);
  EXPECT_CONTAINS(refusal("colour: bleu"), "expected one of red, blue; did you mean blue?");
  EXPECT_CONTAINS(refusal("colours: [red, red]"), "expected each word once as item 1");
}

TEST(Scalars, TokenCounts) {
  EXPECT_EQ(read("stage: {tokens: 0.3B}").stage->tokens, 300'000'000);
  EXPECT_EQ(read("stage: {tokens: 1.5K}").stage->tokens, 1500);
  EXPECT_EQ(read("stage: {tokens: 22M}").stage->tokens, 22'000'000);
  EXPECT_EQ(read("stage: {tokens: 65536}").stage->tokens, 65536);
  EXPECT_CONTAINS(refusal("stage: {tokens: 0.0001K}"), "expected a token count >= 1 (tokens)");
  EXPECT_CONTAINS(refusal("stage: {tokens: 3 B}"), "expected a token count");
}

TEST(Scalars, AlternativesOfTypes) {
  EXPECT_EQ(read("micro_batch: auto").micro_batch, -1);
  EXPECT_EQ(read("micro_batch: 4").micro_batch, 4);
  EXPECT_CONTAINS(refusal("micro_batch: -1"), "expected auto or an integer >= 1");
  EXPECT_EQ(read("bias: none").bias, std::nullopt);
  EXPECT_EQ(read("bias: 1.0").bias, 1.0);
  EXPECT_EQ(read("layers: [2, 3]").layer_list, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read("layers: scores").layers, "scores");
  EXPECT_CONTAINS(refusal("layers: odd"), "expected even, scores or a list of integers");
  EXPECT_EQ(read("samples: 24").samples, (std::vector<std::int64_t>{24}));
  EXPECT_EQ(read("samples: [24, 12]").samples, (std::vector<std::int64_t>{24, 12}));
  EXPECT_EQ(read("pairs: [[0, 1], [2, 3]]").pairs, (std::vector<std::vector<std::int64_t>>{{0, 1}, {2, 3}}));
  EXPECT_CONTAINS(refusal("lengths: [1, x]"), "expected an integer >= 1 as item 1, which is \"x\"");
  EXPECT_CONTAINS(refusal("lengths: 5"), "lengths: found \"5\", expected a list of integers");
}

TEST(Structure, DuplicatesAreRefusedWithBothLines) {
  EXPECT_EQ(refusal("count: 1\nflag: true\ncount: 2"),
            "/etc/run/run.yaml:3: count: the key is given twice, in lines 1 and 3");
  EXPECT_CONTAINS(refusal("rate: &a {peak: 0.1}\nstage:\n  tokens: 1\n  rate:\n    <<: *a\n    peak: 0.2"),
                  "stage.rate.peak: the key is given twice, in lines 1 and 6");
  EXPECT_CONTAINS(refusal("sources:\n  a: {path: x}\n  a: {path: y}"),
                  "sources.a: the key is given twice, in lines 2 and 3");
}

TEST(Structure, AnchorsAndMergeKeys) {
  const Tree tree = read("rate: &a {peak: 0.25}\nstage:\n  tokens: 1\n  rate:\n    <<: *a\n    warmup: 3");
  EXPECT_EQ(tree.stage->rate.peak, 0.25);
  EXPECT_EQ(tree.stage->rate.warmup, 3);
  EXPECT_EQ(read("rate: &a {peak: 0.25}\nstage: {tokens: 1, rate: *a}").stage->rate.peak, 0.25);
  EXPECT_CONTAINS(refusal("rate: &a {x: *a}"), "run.yaml:1: ");
}

TEST(Structure, OddDocuments) {
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "count: 3\n")
                .count,
            3);
  EXPECT_EQ(read("count: 3\r\nrate:\r\n  warmup: 4\r\n").rate.warmup, 4);
  EXPECT_CONTAINS(refusal("rate:\n\twarmup: 4"), "run.yaml:2: found a tab as indentation");
  EXPECT_CONTAINS(refusal(""), "found an empty file, expected a mapping of keys");
  EXPECT_CONTAINS(refusal("# only a comment\n"), "found an empty file");
  EXPECT_CONTAINS(refusal("- 1\n- 2"), "run.yaml:1: found a list, expected a mapping of keys");
  EXPECT_CONTAINS(refusal("count: 1\n---\ncount: 2"), "run.yaml:3: found a second document");
  EXPECT_CONTAINS(refusal("count: !!int 3"), "run.yaml:1: found the tag");
  EXPECT_CONTAINS(refusal("a: [1\nb: 2"), "no valid YAML");
  EXPECT_CONTAINS(refusal("count: 3\n\x04name: x"), "run.yaml:2: found the control character 4");
  EXPECT_CONTAINS(refusal("name: \xff\xfe"), "run.yaml:1: found bytes that are not UTF-8");
  EXPECT_CONTAINS(refusal("? [a]\n: 1"), "found a list as a key");
  EXPECT_CONTAINS(refusal("stage:"), "stage: found nothing, expected a section ({} for its defaults)");
  EXPECT_CONTAINS(refusal(std::string(100'000, '[')), ": found values nested 500 deep");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string from = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + from;
    for (int j = 0; j < 9; ++j) {
      bomb += ", " + from;
    }
    bomb += "]\n";
  }
  EXPECT_CONTAINS(refusal(bomb), "more than 100,000 values");
}

TEST(Messages, WrongKeysAreReportedTogetherWithAdvice) {
  const std::string message = refusal(
      "peak: 0.5\n"       // belongs to rate
      "Count: 3\n"        // capital
      "micro-batch: 2\n"  // dash
      "rate:\n"
      "  warmpu: 3\n"    // swapped
      "  colour: red\n"  // of the top level
      "source: {}\n"     // singular
      "zebra: 1\n");
  EXPECT_EQ(message,
            "/etc/run/run.yaml:1: peak: unknown key; it belongs to rate, stage.rate\n"
            "/etc/run/run.yaml:2: Count: unknown key; did you mean count?\n"
            "/etc/run/run.yaml:3: micro-batch: unknown key; did you mean micro_batch?\n"
            "/etc/run/run.yaml:5: rate.warmpu: unknown key; did you mean warmup?\n"
            "/etc/run/run.yaml:6: rate.colour: unknown key; it belongs to the top level\n"
            "/etc/run/run.yaml:7: source: unknown key; did you mean sources?\n"
            "/etc/run/run.yaml:8: zebra: unknown key; expected one of rate, stage, sources, flag, count, name, colour, "
            "colours, lengths, samples, pairs, micro_batch, bias, layers, out");
}

TEST(Messages, ConditionsWaitUntilTheKeysAreRight) {
  EXPECT_EQ(refusal("stage: {}"), "/etc/run/run.yaml:1: stage.tokens: expected `tokens`");
  EXPECT_EQ(refusal("stage: {token: 3}"), "/etc/run/run.yaml:1: stage.token: unknown key; did you mean tokens?");
}

TEST(Overrides, AreTypedAsInTheFile) {
  EXPECT_EQ(read("rate: {peak: 0.5}", {"rate.peak=5e-4", "rate.peak=6e-4"}).rate.peak, 6e-4);
  EXPECT_EQ(read("count: 1", {"rate.warmup=3"}).rate.warmup, 3);
  EXPECT_EQ(read("count: 1", {"rate={peak: 0.25, warmup: 9}"}).rate.warmup, 9);
  EXPECT_EQ(read("count: 1", {"name=a=b c"}).name, "a=b c");
  EXPECT_EQ(read("lengths: [4, 5, 6]", {"lengths.1=50", "lengths[2]=60"}).lengths,
            (std::vector<std::int64_t>{4, 50, 60}));
  EXPECT_EQ(read("count: 1", {"lengths[0]=9"}).lengths, (std::vector<std::int64_t>{9, 2, 3}));
  EXPECT_EQ(read("count: 1", {"sources.a.path=x"}).sources.at("a").path, std::filesystem::current_path() / "x");
  EXPECT_EQ(read("count: 1", {"stage.tokens=2K"}).stage->tokens, 2000);
  EXPECT_EQ(refusal("count: 1", {"rate.peek=1"}), "--set rate.peek=1: rate.peek: unknown key; did you mean peak?");
  EXPECT_EQ(refusal("count: 1", {"count=abc"}),
            "--set count=abc: count: found \"abc\", expected an integer from 0 to 1e+06");
  EXPECT_CONTAINS(refusal("count: 1", {"count.x=1"}), "--set count.x=1: count is \"1\", expected a section or a list");
  EXPECT_CONTAINS(refusal("count: 1", {"lengths[7]=1"}), "found item 7 of lengths, expected 0 to 2");
  EXPECT_CONTAINS(refusal("count: 1", {"count"}), "expected KEY.KEY=VALUE");
  EXPECT_CONTAINS(refusal("count: 1", {"=3"}), "expected KEY.KEY=VALUE");
  EXPECT_CONTAINS(refusal("count: 1", {"count="}), "expected a value");
  EXPECT_CONTAINS(refusal("count: 1", {"rate..peak=1"}), "empty name");
  EXPECT_CONTAINS(refusal("count: 1", {"name=[a"}), "--set name=[a: no valid YAML");
}

TEST(Overrides, WorkWithoutAFile) {
  Tree tree;
  hydra::config::read_yaml({}, {"count=12"}, [&](hydra::config::Binder& binder) { describe(binder, tree); });
  EXPECT_EQ(tree.count, 12);
  EXPECT_EQ(tree.out, std::filesystem::current_path() / "out");
}

TEST(Paths, StartAtTheConfigFile) {
  EXPECT_EQ(read("out: data/x").out, "/etc/run/data/x");
  EXPECT_EQ(read("out: ../x").out, "/etc/x");
  EXPECT_EQ(read("out: /abs/x").out, "/abs/x");
  EXPECT_EQ(read("count: 1").out, "/etc/run/out");
  EXPECT_EQ(read("out: ''").out, "");
  ASSERT_EQ(::setenv("HOME", "/home/somebody", 1), 0);
  EXPECT_EQ(read("out: ~/x").out, "/home/somebody/x");
  EXPECT_EQ(read("out: ${HOME}/x").out, "/home/somebody/x");
  EXPECT_EQ(read("out: $HOME/x").out, "/etc/run/$HOME/x");
  EXPECT_CONTAINS(refusal("out: ${NOT_SET_ANYWHERE}/x"),
                  "out: found \"${NOT_SET_ANYWHERE}/x\", expected a path; the "
                  "environment variable NOT_SET_ANYWHERE is not set");
  EXPECT_CONTAINS(refusal("out: ~other/x"), "only ~/... is expanded");
  EXPECT_CONTAINS(refusal("out: a${B"), "closed by }");
}

TEST(Paths, RelativeToTheFileFromAnyDirectory) {
  const hydra::test::TempDir folder;
  std::ofstream(folder.path() / "run.yaml") << "out: here\n";
  Tree tree;
  hydra::config::read_yaml(folder.path() / "run.yaml", {},
                           [&](hydra::config::Binder& binder) { describe(binder, tree); });
  EXPECT_EQ(tree.out, folder.path() / "here");
}

TEST(ResolvedConfig, ReadsBackToTheSameTree) {
  const Tree tree = read(
      "name: \"a: #b\\n\\u00e9 {x}\\x7f\"\nbias: 0.1\nlayers: [1, 2]\nsamples: [3, 4]\npairs: [[0, 1]]\nlengths: []\n"
      "rate: {peak: 3e-7}\nstage: {tokens: 0.3B}\nsources: {b: {path: x y, weight: 0.4}, a: {path: z}}\ncolours: []\n");
  const std::string text = written(tree);
  EXPECT_EQ(written(read(text)), text);
  EXPECT_EQ(read(text).name, "a: #b\n\u00e9 {x}\x7f");
  EXPECT_EQ(read(text).sources.at("b").path, "/etc/run/x y");
  EXPECT_EQ(written(read(written(Tree{}))), written(read("count: 7")));
}

TEST(Documentation, NamesEveryKey) {
  Tree tree;
  const std::string page = hydra::config::document([&](hydra::config::Binder& binder) { describe(binder, tree); });
  EXPECT_CONTAINS(page, "## `stage`\n\nA stage. The section may be absent.\n");
  EXPECT_CONTAINS(page, "| `tokens` | token count | not given | tokens | >= 1 | Tokens. |\n");
  EXPECT_CONTAINS(page, "| `colour` | red \\| blue | `red` |  |  | A colour. |\n");
  EXPECT_CONTAINS(page, "## `sources.NAME`\n");
  EXPECT_TRUE(tree.sources.empty());
  EXPECT_FALSE(tree.stage.has_value());
}

}  // namespace
