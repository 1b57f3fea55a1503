#include "hydrahead/eval/report.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "hydrahead/base/files.hpp"
#include "tests/eval/niah_support.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::eval {
namespace {

using namespace test_support;

PplResult ppl(double loss) {
  return {.name = "x",
          .tokens = 100,
          .loss = loss,
          .buckets = {{0, 64, 60, loss + 0.25}, {64, 128, 40, loss - 0.125}},
          .log_scale_a = std::nullopt};
}

RunReport sample_report(const fs::path& dir) {
  const NiahConfig config = small_config();
  Oracle oracle(config);
  RunReport report;
  report.title = "small <to> hybrid";
  report.facts = {{"device", "a & b"}};
  report.heads = 4;
  report.fa_heads = {{0}, {}, {1, 3}};
  report.states.push_back({.name = "teacher",
                           .parameters = 1000000,
                           .cache = {.kv_per_token = 1000, .constant = 0},
                           .niah = run(config, options(dir / "a"), oracle.generate()),
                           .ppl = ppl(3.5)});
  NiahConfig more = config;
  more.lengths = {256, 512, 1024};
  Oracle more_oracle(more);
  report.states.push_back({.name = "align",
                           .parameters = 1234567,
                           .cache = {.kv_per_token = 250, .constant = 4096},
                           .niah = run(more, options(dir / "b"), more_oracle.generate()),
                           .ppl = ppl(std::numeric_limits<double>::quiet_NaN())});
  report.states.push_back({.name = "distill",
                           .parameters = 1234567,
                           .cache = {.kv_per_token = 250, .constant = 4096},
                           .niah = std::nullopt,
                           .ppl = std::nullopt});
  report.stages = {{.stage = "align",
                    .steps = 10,
                    .tokens = 40960,
                    .context = 512,
                    .seconds = 12.5,
                    .tokens_per_second = 3276.8,
                    .teraflops = 0.05,
                    .mfu = 0,
                    .peak_memory = 1 << 30,
                    .first_loss = 1.5,
                    .last_loss = 0.5}};
  report.config_yaml = "seed: 0\nnote: \"<&>\"\n";
  return report;
}

TEST(RunReport, FilesAreValidAndSelfContained) {
  test::TempDir dir;
  const RunReport report = sample_report(dir.path());
  fs::create_directories(dir.path() / "out");
  write_run_report(dir.path() / "out", report);
  const std::string html = read_file(dir.path() / "out/report.html");
  EXPECT_EQ(test::xml_problem(html), "");
  for (const char* outside : {"href=", "src=", "<script", "url(", "@import", ">nan", " nan", ">inf"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("small &lt;to&gt; hybrid"), std::string::npos);
  EXPECT_NE(html.find("layer 2, head 3: full attention"), std::string::npos);
  EXPECT_NE(html.find("layer 2, head 2: Gated DeltaNet"), std::string::npos);
  const Json json = read_json_file((dir.path() / "out/report.json").string());
  EXPECT_EQ(json["states"].size(), 3u);
  EXPECT_EQ(json["states"][1]["decode_state_bytes"][2]["bytes"], 250 * 1024 + 4096);
  EXPECT_TRUE(json["states"][1]["perplexity"]["loss"].is_null());
  EXPECT_FALSE(json["states"][1]["perplexity"]["reason"].get<std::string>().empty());
  EXPECT_TRUE(json["states"][2]["niah"].is_null());
  EXPECT_TRUE(json["stages"][0]["mfu"].is_null());
}

TEST(RunReport, TablesLeaveGapsWhereAStateWasNotTested) {
  test::TempDir dir;
  const std::string text = run_report_tables(sample_report(dir.path()));
  EXPECT_NE(text.find("| mean over tasks | 256 | 512 | 1024 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| teacher | 100.0 ± 0.0 | 100.0 ± 0.0 | - |"), std::string::npos) << text;
  EXPECT_NE(text.find("| niah_multivalue | align | 100.0 [57, 100] |"), std::string::npos) << text;
  EXPECT_NE(text.find("| align, distill | 250 | 4.00 KiB |"), std::string::npos) << text;
  EXPECT_NE(text.find("| teacher | 1,000 | 0 B | 250.0 KiB |"), std::string::npos) << text;
  EXPECT_NE(text.find("| **loss** | 3.5000 | not finite |"), std::string::npos) << text;
  EXPECT_NE(text.find("| position 64-128 | 3.3750 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| align | 512 | 10 | 40,960 | 12.5 | 3,277 |"), std::string::npos) << text;
}

}  // namespace
}  // namespace hydra::eval
