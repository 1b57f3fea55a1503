#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/base/sha256.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t all = 0xffffffff;
  EXPECT_EQ(philox4x32({all, all, all, all}, {all, all}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RandomStream, DrawsAreInRangeAndSamplesDistinct) {
  RandomStream random(7, 1);
  std::vector<int> counts(10);
  for (int i = 0; i < 10000; ++i) {
    ++counts[random.below(10)];
  }
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 850);
  auto chosen = random.sample(50, 50);
  std::sort(chosen.begin(), chosen.end());
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(chosen[i], i);
  }
  EXPECT_LT(random.below64(std::uint64_t{1} << 40), std::uint64_t{1} << 40);
}

TEST(Sha256, KnownAnswer) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Json, RefusesDuplicatesTrailingTextAndDepth) {
  EXPECT_TRUE(parse_json(R"({"a": [1, {"a": 2}], "b": {"a": 1}})"));
  EXPECT_FALSE(parse_json(R"({"a": 1, "a": 2})"));
  EXPECT_FALSE(parse_json("{} {}"));
  EXPECT_FALSE(parse_json("\"\xff\""));
  EXPECT_FALSE(parse_json(std::string(100000, '[')));
  EXPECT_EQ(json_number(0.0 / 0.0 * 1.0).dump(), "null");
}

TEST(Files, AtomicDirectoryAppearsOnCommitOnly) {
  const test::TempDir dir;
  {
    const AtomicDirectory abandoned(dir.path() / "out");
    std::ofstream(abandoned.path() / "x") << "1";
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  AtomicDirectory kept(dir.path() / "out");
  std::ofstream(kept.path() / "x") << "1";
  kept.commit();
  EXPECT_EQ(read_file(dir.path() / "out" / "x"), "1");
  EXPECT_THROW(AtomicDirectory(dir.path() / "out"), UserError);
  EXPECT_THROW(read_file(dir.path() / "none"), UserError);
  write_file_atomic(dir.path() / "y", "2");
  EXPECT_EQ(read_file(dir.path() / "y"), "2");
}

}  // namespace
}  // namespace hydra
