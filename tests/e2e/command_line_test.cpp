// The binary's frame: version, help, exit statuses, the documentation page, overrides, and ranks started by `launch`.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hydrahead/base/files.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temp_dir.hpp"

namespace {

using hydra::test::ProcessResult;

ProcessResult hydrahead(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HYDRA_BINARY);
  return hydra::test::run_process(arguments);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CommandLine, VersionNamesWhatWasCompiledIn) {
  const ProcessResult result = hydrahead({"--version"});
  EXPECT_EQ(result.status, 0);
  for (const char* part : {"hydrahead 0.", "commit ", "torch     2.11.0", "CUDA ", "NCCL "}) {
    EXPECT_TRUE(contains(result.out, part)) << part << " in " << result.out;
  }
}

TEST(CommandLine, HelpListsEveryVerb) {
  const ProcessResult result = hydrahead({"--help"});
  EXPECT_EQ(result.status, 0);
  for (const char* verb :
       {"inspect", "verify", "tokenize", "convert", "train", "eval", "generate", "export", "bench", "launch"}) {
    EXPECT_TRUE(contains(result.out, std::string("  ") + verb)) << verb << " in " << result.out;
  }
}

TEST(CommandLine, WrongRequestsExitWith2) {
  EXPECT_EQ(hydrahead({}).status, 2);
  EXPECT_EQ(hydrahead({"trian"}).status, 2);
  EXPECT_EQ(hydrahead({"train", "--no-such-option"}).status, 2);
  const ProcessResult missing = hydrahead({"train", "--config", "/no/such/file.yaml"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_TRUE(contains(missing.err, "/no/such/file.yaml")) << missing.err;
}

// Plain numbers inside their range only; one line names the option, what was found and what was expected.
TEST(CommandLine, NumbersAreChecked) {
  for (const auto& [option, value] : {std::pair("--max-new", "-1"),
                                      {"--max-new", "010"},
                                      {"--max-new", "99999999999999999999"},
                                      {"--top-p", "nan"},
                                      {"--top-p", "1.01"},
                                      {"--temperature", "inf"},
                                      {"--seed", "-1"},
                                      {"--seed", ""},
                                      {"--prefill-chunk", "0"}}) {
    const ProcessResult result = hydrahead({"generate", "--model", "/no/such/model", "--prompt", "x", option, value});
    EXPECT_EQ(result.status, 2) << option << " " << value;
    EXPECT_TRUE(contains(result.err, std::string(option) + ": found '" + value + "', expected a")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(CommandLine, MissingOptionsNameTheVerb) {
  const ProcessResult result = hydrahead({"eval", "niah", "--out", "x"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.err, "--model is required; see `hydrahead eval niah --help`")) << result.err;
}

TEST(CommandLine, OutputBelowAFileIsAWrongRequest) {
  const hydra::test::TempDir folder;
  std::ofstream(folder.path() / "file") << "x";
  const std::string out = (folder.path() / "file/out").string();
  const ProcessResult result = hydrahead({"export", "--model", HYDRA_FIXTURES "/qwen3-nano", "--out", out});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.err, out)) << result.err;
}

TEST(CommandLine, GatedDeltaOptionsAreChecked) {
  for (const char* shape : {"1,2", "1,2,3,4", "0,64,2", "8,4096,x"}) {
    const ProcessResult result = hydrahead({"bench", "gdn", "--shape", shape});
    EXPECT_EQ(result.status, 2) << shape;
    EXPECT_TRUE(contains(result.err, std::string("--shape: found '") + shape)) << result.err;
  }
  EXPECT_EQ(hydrahead({"bench", "gdn", "--path", "fast"}).status, 2);
  const ProcessResult kernel = hydrahead({"train", "--config", "/no/such/file.yaml", "--gdn-kernel", "fast"});
  EXPECT_EQ(kernel.status, 2);
  EXPECT_TRUE(contains(kernel.err, "--gdn-kernel")) << kernel.err;
}

TEST(CommandLine, HeadKernelOptionsAreChecked) {
  for (const auto& [option, value] : {std::pair("--rows", "0"), {"--heads", "1"}, {"--head-dim", "80"}}) {
    const ProcessResult result = hydrahead({"bench", "heads", option, value});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_TRUE(contains(result.err, option)) << result.err;
  }
}

TEST(CommandLine, KernelBenchmarksNeedAGpu) {
  const hydra::test::TempDir folder;
  const std::string json = (folder.path() / "record.json").string();
  hydra::test::ProcessOptions no_gpu;
  no_gpu.environment["CUDA_VISIBLE_DEVICES"] = "";
  for (const std::string verb : {"gdn", "heads"}) {
    const ProcessResult result = hydra::test::run_process({HYDRA_BINARY, "bench", verb, "--json", json}, no_gpu);
    EXPECT_EQ(result.status, 2) << verb;
    EXPECT_TRUE(contains(result.err, "bench " + verb + ": ")) << result.err;
    EXPECT_TRUE(contains(result.err, " no CUDA ")) << result.err;
    EXPECT_FALSE(std::filesystem::exists(json)) << verb;
  }
}

TEST(CommandLine, DocumentationPage) {
  const ProcessResult result = hydrahead({"document-config"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, hydra::read_file(HYDRA_SOURCE_DIR "/docs/config.md"));
}

// A typo is refused at once, and nothing is made.
TEST(CommandLine, DamagedConfigLeavesNothingBehind) {
  const hydra::test::TempDir folder;
  std::string text = hydra::read_file(HYDRA_SOURCE_DIR "/configs/nano-cpu.yaml");
  text.replace(text.find("global_batch"), 12, "global-batch");
  text.replace(text.find("../runs/demo\n"), 12, "run");
  std::ofstream(folder.path() / "damaged.yaml") << text << "peak: 3\n";
  for (const bool check_only : {true, false}) {
    std::vector<std::string> arguments = {"train", "--config", (folder.path() / "damaged.yaml").string()};
    if (check_only) {
      arguments.push_back("--dry-run");
    }
    const ProcessResult result = hydrahead(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_LT(result.seconds, 5);
    EXPECT_TRUE(contains(result.err, "stages.align.global-batch: unknown key; did you mean global_batch?"))
        << result.err;
    EXPECT_TRUE(contains(result.err, "peak: unknown key; it belongs to stages.align.lr")) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
  }
}

TEST(Launch, RunsTheVerbInEveryRank) {
  const ProcessResult result = hydrahead({"launch", "-n", "2", "--", "document-config"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.size(), 2 * hydra::read_file(HYDRA_SOURCE_DIR "/docs/config.md").size());
}

TEST(Launch, PassesOptionsOfTheVerbAndItsStatus) {
  const ProcessResult result = hydrahead({"launch", "-n", "2", "--", "inspect", "/no/such/checkpoint"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.err, "/no/such/checkpoint")) << result.err;
  EXPECT_TRUE(contains(result.err, "failed first: exit status 2")) << result.err;
  const ProcessResult option = hydrahead({"launch", "-n", "1", "--", "train", "--config", "/no/such/file.yaml"});
  EXPECT_TRUE(contains(option.err, "/no/such/file.yaml")) << option.err;
  EXPECT_EQ(hydrahead({"launch", "-n", "2"}).status, 2);
  EXPECT_EQ(hydrahead({"launch", "-n", "0", "--", "inspect", "x"}).status, 2);
}

}  // namespace
