// `hydrahead verify` as a user runs it: exit status and messages.

#include <gtest/gtest.h>

#include <filesystem>

#include "hydrahead/io/safetensors.hpp"
#include "tests/support/hybrid_nano.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra {
namespace {

const std::string fixtures = HYDRA_FIXTURES;

test::ProcessResult verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {HYDRA_BINARY, "verify"});
  return test::run_process(arguments);
}

// A copy of a golden file in which `change` may alter or drop tensors.
template <class Change>
std::filesystem::path changed_golden(const std::filesystem::path& dir, const std::string& name, const Change& change) {
  const auto original = io::SafetensorsFile::open(fixtures + "/golden/" + name);
  io::NamedTensors tensors;
  for (const auto& [key, info] : original.header().tensors) {
    at::Tensor value = original.load(key).clone();
    if (change(key, value)) {
      tensors.emplace_back(key, value);
    }
  }
  const auto path = dir / "golden.safetensors";
  io::write_safetensors(path, tensors);
  return path;
}

TEST(Verify, TeacherPassesAndAWrongReferenceFails) {
  const std::string model = fixtures + "/qwen3-micro-untied";
  const auto good = verify({"--model", model, "--golden", fixtures + "/golden/micro-untied.safetensors"});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  for (const char* kind : {"logits", "log-probabilities", "hidden states", "attention outputs", "greedy tokens"}) {
    EXPECT_NE(good.out.find(kind), std::string::npos) << kind;
  }
  EXPECT_EQ(good.out.find("FAIL"), std::string::npos);

  const test::TempDir dir;
  const auto wrong =
      changed_golden(dir.path(), "micro-untied.safetensors", [](const std::string& key, at::Tensor& value) {
        if (key == "b.hidden.2") {
          value[0][0] += 0.01;
        }
        return true;
      });
  const auto bad = verify({"--model", model, "--golden", wrong.string()});
  EXPECT_EQ(bad.status, 1) << bad.err;
  EXPECT_NE(bad.out.find("FAIL   b.hidden.2"), std::string::npos) << bad.out;
}

TEST(Verify, HybridCasePasses) {
  const test::TempDir dir;
  test::write_hybrid_nano(dir.path() / "hybrid");
  const auto result = verify({"--model", (dir.path() / "hybrid").string(), "--teacher", fixtures + "/qwen3-nano",
                              "--golden", fixtures + "/golden/hybrid-nano/case.safetensors"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("stage3_scaled gradients"), std::string::npos);
}

TEST(Verify, RefusesWrongRequestsWithOneMessage) {
  const std::string model = fixtures + "/qwen3-micro-untied";
  const test::TempDir dir;
  const auto refused = [](const test::ProcessResult& result, const std::string& what) {
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find(what), std::string::npos) << result.err;
  };
  refused(verify({"--model", model, "--golden", fixtures + "/golden/hybrid-nano/case.safetensors"}), "--teacher");
  refused(verify({"--model", model, "--golden", (dir.path() / "none").string()}), "none");
  refused(verify({"--model", model, "--golden", fixtures + "/golden/micro-untied.safetensors", "--precision", "fp8"}),
          "fp8");
  // Another model's outputs: the vocabulary does not fit.
  refused(verify({"--model", model, "--golden", fixtures + "/golden/qwen3-nano.safetensors"}), "input_ids");
  const auto no_positions = changed_golden(dir.path(), "micro-untied.safetensors",
                                           [](const std::string& key, at::Tensor&) { return key != "a.positions"; });
  refused(verify({"--model", model, "--golden", no_positions.string()}), "a.positions");
  refused(verify({"--model", model, "--golden", fixtures + "/qwen3-micro-untied/model.safetensors"}), "input_ids");
}

}  // namespace
}  // namespace hydra
