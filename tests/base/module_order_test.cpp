// Holds the order of the modules: each may include only itself and those before it (docs/architecture.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace hydra {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> order{"base", "metrics", "config", "text",   "io",    "dist",       "ops",
                                     "data", "model",   "eval",   "select", "optim", "checkpoint", "train"};

std::ptrdiff_t place(const std::string& module) {
  const auto found = std::find(order.begin(), order.end(), module);
  return found == order.end() ? -1 : found - order.begin();
}

std::vector<std::string> violations(const fs::path& root, const std::string& module, std::size_t& files) {
  static const std::regex include(R"(^\s*#\s*include\s*"hydrahead/([a-z_]+)/)");
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) {
      continue;
    }
    ++files;
    std::ifstream lines(entry.path());
    std::string line;
    while (std::getline(lines, line)) {
      std::smatch match;
      if (std::regex_search(line, match, include) && (place(match[1]) < 0 || place(match[1]) > place(module))) {
        found.push_back(entry.path().string() + ": " + line);
      }
      if (line.find("<torch/torch.h>") != std::string::npos) {
        found.push_back(entry.path().string() + ": includes torch/torch.h");
      }
    }
  }
  return found;
}

TEST(ModuleOrder, NoModuleIncludesALaterOne) {
  const fs::path source = HYDRA_SOURCE_DIR;
  std::size_t files = 0;
  for (const fs::path& top : {source / "src", source / "include" / "hydrahead"}) {
    for (const auto& entry : fs::directory_iterator(top)) {
      if (!entry.is_directory()) {
        continue;
      }
      const std::string module = entry.path().filename();
      EXPECT_GE(place(module), 0) << module << " is no module of the order";
      for (const std::string& violation : violations(entry.path(), module, files)) {
        ADD_FAILURE() << violation;
      }
    }
  }
  EXPECT_GT(files, 100u);
}

TEST(ModuleOrder, SpdlogStaysInOneFileAndKernelsSeeNoTorch) {
  const fs::path source = HYDRA_SOURCE_DIR;
  for (const char* top : {"src", "include", "tools", "kernels"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source / top)) {
      if (!entry.is_regular_file()) {
        continue;
      }
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (text.find("#include <spdlog/") != std::string::npos) {
        EXPECT_EQ(entry.path(), source / "src/base/log.cpp");
      }
      if (std::string(top) == "kernels") {
        EXPECT_EQ(text.find("#include <ATen"), std::string::npos) << entry.path();
        EXPECT_EQ(text.find("#include <torch"), std::string::npos) << entry.path();
      }
    }
  }
}

}  // namespace
}  // namespace hydra
