#include "hydrahead/eval/niah_run.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "hydrahead/base/signals.hpp"
#include "tests/eval/niah_support.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/xml_check.hpp"

namespace hydra::eval {
namespace {

using test::refusal;

using namespace test_support;

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(NiahRun, OracleScoresEverything) {
  test::TempDir dir;
  const NiahConfig config = small_config();
  Oracle oracle(config);
  const NiahSummary summary = run(config, options(dir.path() / "out"), oracle.generate());
  EXPECT_EQ(summary.lengths, (std::vector<std::int64_t>{256, 512}));
  EXPECT_EQ(summary.samples, 30);
  for (const auto& row : summary.cells) {
    for (const NiahCell& cell : row) {
      EXPECT_EQ(cell.samples, 5);
      EXPECT_DOUBLE_EQ(cell.score, 100);
      EXPECT_DOUBLE_EQ(cell.strict, 100);
      EXPECT_DOUBLE_EQ(cell.precision, 100);
      EXPECT_EQ(cell.truncated, 0);
      EXPECT_GT(cell.fill, 80);
    }
  }
  EXPECT_EQ(*summary.effective_length, 512);
  EXPECT_EQ(summary.means.back().name, "NIAH-8");
  EXPECT_EQ(summary.means.back().lengths[0].cells, 3);
  // Every file is strict JSON, well-formed, and names no outside resource.
  for (const auto& [name, text] : result_files(dir.path() / "out")) {
    SCOPED_TRACE(name);
    if (name.ends_with(".json")) {
      EXPECT_TRUE(parse_json(text));
    } else if (name.ends_with(".svg") || name.ends_with(".html")) {
      EXPECT_EQ(test::xml_problem(text), "");
      for (const char* outside : {"href=", "src=", "<script", "url(", "@import"}) {
        EXPECT_EQ(text.find(outside), std::string::npos) << outside;
      }
    }
  }
  EXPECT_TRUE(fs::exists(dir.path() / "out/depth-niah_multivalue.svg"));
  // The record of a sample holds RULER's fields.
  const Json record = *parse_json(lines_of(dir.path() / "out/samples.jsonl").at(1));
  for (const char* key : {"index", "outputs", "pred", "length", "answer_prefix", "depths", "hits", "budget", "ms"}) {
    EXPECT_TRUE(record.contains(key)) << key;
  }
  EXPECT_EQ(record["id"], "niah_single_1/256/0");
  // The summary on disk is the summary.
  EXPECT_EQ(to_json(read_niah_summary(dir.path() / "out/summary.json")), to_json(summary));
}

TEST(NiahRun, EmptyModelScoresNothing) {
  test::TempDir dir;
  const NiahSummary summary = run(small_config(), options(dir.path() / "out"), [](const auto& prompts, const auto&) {
    return std::vector<std::vector<std::int32_t>>(prompts.size(), {stop_id});
  });
  EXPECT_EQ(summary.empty, 30);
  EXPECT_DOUBLE_EQ(*summary.average, 0);
  EXPECT_FALSE(summary.effective_length);
  EXPECT_DOUBLE_EQ(summary.cells[0][0].score, 0);
  EXPECT_TRUE(summary.cells[0][0].missing.empty());  // a zero, not a gap
}

TEST(NiahRun, CopyingEveryNumberIsImpreciseAndTruncated) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.tasks = {data::NiahTask::multikey_2};  // the haystack is made of needles
  config.lengths = {512};
  config.max_new = 200;
  const Generate copy = [](const auto& prompts, const std::vector<std::int64_t>& budgets) {
    std::vector<std::vector<std::int32_t>> out;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      std::string numbers, digits;
      for (const char c : tokenizer().decode(prompts[p])) {
        if (c >= '0' && c <= '9') {
          digits.push_back(c);
        } else if (!digits.empty()) {
          numbers += " " + digits;
          digits.clear();
        }
      }
      auto ids = tokenizer().encode(numbers);
      while (static_cast<std::int64_t>(ids.size()) < budgets[p]) {
        ids.push_back(ids.back());
      }
      ids.resize(static_cast<std::size_t>(budgets[p]));
      out.push_back(ids);
    }
    return out;
  };
  const NiahSummary summary = run(config, options(dir.path() / "out"), copy);
  EXPECT_DOUBLE_EQ(summary.cells[0][0].score, 100);
  EXPECT_LT(summary.cells[0][0].precision, 50);
  EXPECT_EQ(summary.cells[0][0].truncated, 5);
}

TEST(NiahRun, StoppedAndContinuedGivesTheSameFiles) {
  test::TempDir dir;
  const NiahConfig config = small_config();
  Oracle whole(config), parts(config);
  run(config, options(dir.path() / "whole"), whole.generate());
  // A signal between batches, twice; then a record line cut in half, as by SIGKILL.
  const fs::path out = dir.path() / "parts";
  for (int stop = 1; stop <= 2; ++stop) {
    int calls = 0;
    EXPECT_THROW(run(config, options(out),
                     [&](const auto& prompts, const auto& budgets) {
                       if (++calls == 2) {
                         request_stop();
                       }
                       return parts.generate()(prompts, budgets);
                     }),
                 Interrupted);
    clear_stop_request();
  }
  const std::string samples = read_file(out / "samples.jsonl");
  const std::size_t last = samples.rfind('\n', samples.size() - 2) + 1;
  std::ofstream(out / "samples.jsonl", std::ios::trunc) << samples.substr(0, last + (samples.size() - last) / 2);
  Oracle rest(config);
  run(config, options(out), rest.generate());
  EXPECT_FALSE(parts.asked_twice);
  EXPECT_FALSE(rest.asked_twice);
  EXPECT_EQ(parts.asked.size() + rest.asked.size(), 31u);  // only the torn one is computed again
  EXPECT_EQ(result_files(dir.path() / "whole"), result_files(out));
  // Once more: nothing is left to do, nothing changes.
  run(config, options(out), [](const auto&, const auto&) -> std::vector<std::vector<std::int32_t>> {
    throw Error("no sample may be computed");
  });
  EXPECT_EQ(result_files(dir.path() / "whole"), result_files(out));
}

TEST(NiahRun, AnyOrderOfRecordsGivesTheSameFiles) {
  test::TempDir dir;
  const NiahConfig config = small_config();
  Oracle oracle(config);
  run(config, options(dir.path() / "out"), oracle.generate());
  const auto before = result_files(dir.path() / "out");
  std::vector<std::string> lines = lines_of(dir.path() / "out/samples.jsonl");
  std::reverse(lines.begin() + 1, lines.end());
  std::ofstream file(dir.path() / "out/samples.jsonl", std::ios::trunc);
  for (const std::string& line : lines) {
    file << line << '\n';
  }
  file.close();
  run(config, options(dir.path() / "out"), oracle.generate());
  EXPECT_EQ(before, result_files(dir.path() / "out"));
}

TEST(NiahRun, RanksShareTheWorkAndAnInterruptedRunOfRanksIsMerged) {
  test::TempDir dir;
  const NiahConfig config = small_config();
  Oracle oracle(config);
  run(config, options(dir.path() / "one"), oracle.generate());
  std::atomic<int> answered = 0;
  dist::run_thread_ranks(3, [&](dist::Communicator& communicator) {
    Oracle own(config);
    NiahRun rank(config, corpora(), tokenizer(), subject(), options(dir.path() / "three"), communicator);
    rank.run(own.generate());
    answered += static_cast<int>(own.asked.size());
  });
  EXPECT_EQ(answered, 30);
  EXPECT_EQ(result_files(dir.path() / "one"), result_files(dir.path() / "three"));
  // What ranks left behind when they were killed is used by a run on one rank.
  fs::create_directories(dir.path() / "left");
  const auto lines = lines_of(dir.path() / "one/samples.jsonl");
  std::ofstream(dir.path() / "left/samples.rank0.jsonl") << lines[0] << '\n' << lines[1] << '\n';
  std::ofstream(dir.path() / "left/samples.rank1.jsonl") << lines[0] << '\n'
                                                         << lines[7] << '\n'
                                                         << lines[8].substr(0, 40);
  Oracle rest(config);
  run(config, options(dir.path() / "left"), rest.generate());
  EXPECT_EQ(rest.asked.size(), 28u);
  EXPECT_EQ(result_files(dir.path() / "one"), result_files(dir.path() / "left"));
}

TEST(NiahRun, ChangedSettingsAreRefusedByName) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.samples = {1};
  Oracle oracle(config);
  run(config, options(dir.path() / "out"), oracle.generate());
  const auto before = result_files(dir.path() / "out");
  const std::string model =
      refusal([&] { run(config, options(dir.path() / "out"), oracle.generate(), subject("m2")); });
  EXPECT_NE(model.find("model_sha256: found \"m1\", expected \"m2\""), std::string::npos) << model;
  NiahConfig other = config;
  other.seed = 7;
  other.answer_prefix = false;
  const std::string seed = refusal([&] { run(other, options(dir.path() / "out"), oracle.generate()); });
  EXPECT_NE(seed.find("seed: found 42, expected 7"), std::string::npos) << seed;
  EXPECT_NE(seed.find("answer_prefix: found true, expected false"), std::string::npos) << seed;
  EXPECT_EQ(before, result_files(dir.path() / "out"));
  fs::create_directories(dir.path() / "used");
  std::ofstream(dir.path() / "used/thesis.txt") << "x";
  EXPECT_NE(refusal([&] { run(config, options(dir.path() / "used"), oracle.generate()); }).find("holds files"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir.path() / "used/samples.jsonl"));
  std::ofstream(dir.path() / "out/samples.jsonl", std::ios::app) << "{\"id\": 3}\n";
  const std::string damaged = refusal([&] { run(config, options(dir.path() / "out"), oracle.generate()); });
  EXPECT_NE(damaged.find("samples.jsonl line 8"), std::string::npos) << damaged;
}

TEST(NiahRun, AnotherModelsChatFormComesFromAFile) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.samples = {1};
  config.chat_wrapper = dir.path() / "wrapper.txt";
  std::ofstream(config.chat_wrapper) << "[INST] {task} [/INST]\n";
  const Generate check = [](const auto& prompts, const auto&) {
    for (const auto& prompt : prompts) {
      const std::string text = tokenizer().decode(prompt);
      EXPECT_TRUE(text.starts_with("[INST] ")) << text;
      EXPECT_NE(text.find(" [/INST]\n "), std::string::npos) << text;  // the answer prefix follows
    }
    return std::vector<std::vector<std::int32_t>>(prompts.size(), {stop_id});
  };
  EXPECT_EQ(run(config, options(dir.path() / "out"), check).samples, 6);
  std::ofstream(config.chat_wrapper) << "{task}";
  const std::string changed = refusal([&] { run(config, options(dir.path() / "out"), check); });
  EXPECT_NE(changed.find("chat_wrapper: found"), std::string::npos) << changed;
  for (const char* text : {"no slot", "{task} {task}"}) {
    std::ofstream(config.chat_wrapper) << text;
    const std::string bad = refusal([&] { run(config, options(dir.path() / "bad"), check); });
    EXPECT_NE(bad.find(config.chat_wrapper.string()), std::string::npos) << bad;
    EXPECT_FALSE(fs::exists(dir.path() / "bad"));
  }
}

TEST(NiahRun, MoreSamplesAndLengthsKeepWhatIsThere) {
  test::TempDir dir;
  NiahConfig config = small_config(), larger = small_config();
  config.samples = {2};
  config.lengths = {256};
  Oracle first(config), second(larger);
  run(config, options(dir.path() / "out"), first.generate());
  run(larger, options(dir.path() / "out"), second.generate());
  EXPECT_EQ(second.asked.size(), 30u - 6u);
  for (const auto& prompt : first.asked) {
    EXPECT_FALSE(second.asked.contains(prompt));
  }
}

TEST(NiahRun, UnfitCellsAreRefusedOrLeftOut) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.tasks = {data::NiahTask::single_1, data::NiahTask::multikey_3};
  Oracle oracle(config);
  const std::string message = refusal([&] { run(config, options(dir.path() / "out"), oracle.generate()); });
  EXPECT_NE(message.find("niah_multikey_3"), std::string::npos) << message;
  EXPECT_NE(message.find("256"), std::string::npos) << message;
  EXPECT_NE(message.find("--skip-unfit"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(dir.path() / "out"));
  NiahRunOptions skip = options(dir.path() / "out");
  skip.skip_unfit = true;
  const NiahSummary summary = run(config, skip, oracle.generate());
  EXPECT_FALSE(summary.cells[1][0].missing.empty());
  EXPECT_EQ(summary.means.back().lengths[0].cells, 1);
  EXPECT_DOUBLE_EQ(summary.means.back().lengths[0].score, 100);  // not halved by the gap
  const Json json = read_json_file((dir.path() / "out/summary.json").string());
  EXPECT_TRUE(json["cells"][2]["score"].is_null());
  EXPECT_FALSE(json["cells"][2]["reason"].get<std::string>().empty());
  EXPECT_FALSE(json["cells"][2].contains("low"));
}

TEST(NiahRun, ASampleWithoutAnAnswerFailsAlone) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.tasks = {data::NiahTask::single_1};
  Oracle oracle(config);
  const data::NiahBuilder builder(corpora(), tokenizer(), {});
  const auto bad = builder.sample(data::NiahTask::single_1, 256, 3).ids;
  const Generate generate = [&](const auto& prompts, const auto& budgets) {
    if (std::find(prompts.begin(), prompts.end(), bad) != prompts.end()) {
      throw Error("logits of prompt 3 at step 0 are not finite");
    }
    return oracle.generate()(prompts, budgets);
  };
  const NiahSummary summary = run(config, options(dir.path() / "out"), generate);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.cells[0][0].failed, 1);
  EXPECT_NEAR(summary.cells[0][0].score, 80, 1e-9);
  EXPECT_NE(read_file(dir.path() / "out/samples.jsonl").find("not finite"), std::string::npos);
}

TEST(NiahRun, ZerosStopARunAbove32K) {
  test::TempDir dir;
  NiahConfig config = small_config();
  config.tasks = {data::NiahTask::single_1};
  config.lengths = {256, 40000};
  config.samples = {5, 1};
  const Generate nothing = [](const auto& prompts, const auto&) {
    return std::vector<std::vector<std::int32_t>>(prompts.size(), {stop_id});
  };
  EXPECT_THROW(run(config, options(dir.path() / "out"), nothing), Error);
  EXPECT_THROW(run(config, options(dir.path() / "out"), nothing), Error);  // the records do not lift the guard
  NiahRunOptions force = options(dir.path() / "out");
  force.force = true;
  EXPECT_EQ(run(config, force, nothing).samples, 6);
}

TEST(NiahRun, DepthTablesHoldEveryNeedle) {
  test::TempDir dir;
  NiahConfig config = small_config();
  Oracle oracle(config);
  const NiahSummary summary = run(config, options(dir.path() / "out"), oracle.generate());
  const auto needles = [](const DepthTable& table) {
    std::int64_t count = 0;
    for (const auto& row : table.cells) {
      for (const DepthCell& cell : row) {
        count += cell.needles;
        EXPECT_EQ(cell.found, cell.needles);
      }
    }
    return count;
  };
  EXPECT_EQ(needles(summary.depths[0]), 10);
  EXPECT_EQ(needles(summary.depths[2]), 40);  // four values a sample
  config.depths = {75, 25};
  config.tasks = {data::NiahTask::single_1};
  Oracle grid_oracle(config);
  const NiahSummary grid = run(config, options(dir.path() / "grid"), [&](const auto& prompts, const auto&) {
    return std::vector<std::vector<std::int32_t>>(prompts.size(), {stop_id});
  });
  EXPECT_EQ(grid.depths[0].rows, (std::vector<std::string>{"25%", "75%"}));
  EXPECT_EQ(grid.depths[0].cells[0][0].needles, 2);  // samples 1 and 3 of 5
  EXPECT_EQ(grid.depths[0].cells[1][0].needles, 3);
}

}  // namespace
}  // namespace hydra::eval
