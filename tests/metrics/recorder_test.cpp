#include "hydrahead/metrics/recorder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "hydrahead/base/files.hpp"
#include "hydrahead/metrics/prometheus_file.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::metrics {
namespace {

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    auto parsed = parse_json(line);
    EXPECT_TRUE(parsed) << line;
    lines.push_back(*parsed);
  }
  return lines;
}

StepRecord step_record(std::int64_t step, double loss) {
  return {.step = step, .stage = "align", .scalars = {{"loss", loss}, {"lr", 0.001}}, .details = {}};
}

TEST(Recorder, WritesAllThreeFiles) {
  test::TempDir dir;
  Recorder recorder(dir.path(), {.last_step = -1, .tensorboard = true, .run_name = "a \"run\""});
  StepRecord record = step_record(1, 0.25);
  record.details = {{"documents", {"books:3"}}};
  recorder.record(record);
  const auto lines = lines_of(dir.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["stage"], "align");
  EXPECT_EQ(lines[0]["loss"], 0.25);
  EXPECT_EQ(lines[0]["documents"][0], "books:3");
  EXPECT_NE(read_file(dir.path() / "metrics.prom").find("hydrahead_loss{run=\"a \\\"run\\\"\",stage=\"align\"} 0.25\n"),
            std::string::npos);
  EXPECT_FALSE(fs::is_empty(dir.path() / "tensorboard"));
}

TEST(Recorder, ResumeDropsLaterLinesAndATornOne) {
  test::TempDir dir;
  {
    Recorder recorder(dir.path(), {.last_step = -1, .tensorboard = false, .run_name = ""});
    for (int step = 1; step <= 5; ++step) {
      recorder.record(step_record(step, step));
    }
    std::ofstream(dir.path() / "metrics.jsonl", std::ios::app) << "{\"step\":6,\"lo";
  }
  {
    Recorder resumed(dir.path(), {.last_step = 3, .tensorboard = false, .run_name = ""});
    resumed.record(step_record(4, 40));
  }
  const auto lines = lines_of(dir.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2]["loss"], 3.0);
  EXPECT_EQ(lines[3]["loss"], 40.0);
  Recorder fresh(dir.path(), {.last_step = -1, .tensorboard = false, .run_name = ""});
  EXPECT_TRUE(lines_of(dir.path() / "metrics.jsonl").empty());
}

TEST(Recorder, NonFiniteNumbersBecomeNullWithTheirName) {
  test::TempDir dir;
  Recorder recorder(dir.path(), {.last_step = -1, .tensorboard = true, .run_name = ""});
  recorder.record(step_record(1, std::numeric_limits<double>::quiet_NaN()));
  const std::string text = read_file(dir.path() / "metrics.jsonl");
  EXPECT_EQ(text.find("nan"), std::string::npos);
  const auto lines = lines_of(dir.path() / "metrics.jsonl");
  EXPECT_TRUE(lines[0]["loss"].is_null());
  EXPECT_EQ(lines[0]["not_finite"], Json::array({"loss"}));
  const Json nested = strict_json({{"a", {{"b", {1.0, std::numeric_limits<double>::infinity()}}}}});
  EXPECT_EQ(nested["not_finite"], Json::array({"a.b.1"}));
}

TEST(Prometheus, NamesLabelsAndSpecialValues) {
  const std::vector<Gauge> gauges = {{"tok/s", 1.5}, {"x", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(prometheus_text(gauges, {{"run", "a\nb\\"}}),
            "# TYPE tok_s gauge\ntok_s{run=\"a\\nb\\\\\"} 1.5\n# TYPE x gauge\nx{run=\"a\\nb\\\\\"} +Inf\n");
}

}  // namespace
}  // namespace hydra::metrics
