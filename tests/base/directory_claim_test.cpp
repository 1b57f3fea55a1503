#include "hydrahead/base/directory_claim.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "hydrahead/base/error.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra {
namespace {

std::string refusal(const fs::path& path) {
  try {
    const DirectoryClaim claim(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(DirectoryClaim, MakesTheDirectoryAndRemovesItWhereItStaysEmpty) {
  const test::TempDir dir;
  const fs::path out = dir.path() / "a" / "b";
  {
    const DirectoryClaim claim(out);
    EXPECT_TRUE(fs::is_directory(out));
  }
  EXPECT_FALSE(fs::exists(out));
  {
    const DirectoryClaim claim(out);
    std::ofstream(out / "result") << "x";
  }
  EXPECT_TRUE(fs::exists(out / "result"));
}

TEST(DirectoryClaim, IsRefusedToASecondOwnerUntilTheFirstIsGone) {
  const test::TempDir dir;
  const fs::path out = dir.path() / "out";
  std::optional<DirectoryClaim> first(out);
  EXPECT_NE(refusal(out).find("out: another process writes"), std::string::npos) << refusal(out);
  EXPECT_TRUE(fs::exists(out));  // the refusal did not remove the first one's
  first.reset();
  EXPECT_EQ(refusal(out), "");
}

TEST(DirectoryClaim, AFileOrAPathBelowOneIsRefused) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "file") << "x";
  for (const fs::path& path : {dir.path() / "file", dir.path() / "file" / "out"}) {
    EXPECT_EQ(refusal(path).find(path.string() + ": cannot be"), 0u) << refusal(path);
  }
  EXPECT_TRUE(fs::is_regular_file(dir.path() / "file"));
}

}  // namespace
}  // namespace hydra
