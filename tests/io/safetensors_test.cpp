#include "hydrahead/io/safetensors.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace hydra::io {
namespace {

TEST(Safetensors, WritesAndReadsEveryType) {
  const test::TempDir dir;
  NamedTensors tensors = {{"bytes", at::arange(5, at::kByte)},
                          {"scalar", at::scalar_tensor(2.5, at::kDouble)},
                          {"empty", at::empty({0, 3}, at::kFloat)},
                          {"flags", at::tensor({1, 0, 1}).to(at::kBool)},
                          {"ids", at::arange(-3, 3, at::kLong)},
                          {"half", at::linspace(-2, 2, 7).to(at::kHalf)},
                          {"brain", at::linspace(-2, 2, 7).to(at::kBFloat16)},
                          {"slanted", at::arange(12, at::kFloat).view({3, 4}).t()}};
  write_safetensors(dir.path() / "x.safetensors", tensors, {{"format", "pt"}});
  const auto file = SafetensorsFile::open(dir.path() / "x.safetensors");
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.header().data_start % 8, 0u);
  ASSERT_EQ(file.header().tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.load(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
  EXPECT_THROW(file.load("absent"), UserError);
}

TEST(Safetensors, ViewsOutliveTheFileObject) {
  const test::TempDir dir;
  write_safetensors(dir.path() / "x.safetensors", {{"a", at::arange(1000, at::kFloat)}});
  at::Tensor view;
  {
    const auto file = SafetensorsFile::open(dir.path() / "x.safetensors");
    view = file.load("a");
  }
  EXPECT_EQ(view.sum().item<float>(), 499500.0f);
}

TEST(Safetensors, OddAddressesGiveTheSameValues) {
  const test::TempDir dir;
  const test::TinyWeights weights = {{"a", {{3}, {1.0f, -2.0f, 0.5f}}}, {"b", {{2, 2}, {1.0f, 2.0f, 3.0f, 4.0f}}}};
  for (const char* dtype : {"BF16", "F16", "F32"}) {
    test::write_bytes(dir.path() / "odd", test::safetensors_bytes(weights, {.dtype = dtype, .odd = true}));
    const auto file = SafetensorsFile::open(dir.path() / "odd");
    EXPECT_EQ(file.header().data_start % 2, 1u);
    EXPECT_TRUE(at::equal(file.load("b").to(at::kFloat), at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2}))) << dtype;
    EXPECT_TRUE(at::equal(file.load("a").to(at::kFloat), at::tensor({1.0f, -2.0f, 0.5f}))) << dtype;
  }
}

TEST(Safetensors, OpeningNamesTheFile) {
  const test::TempDir dir;
  test::write_bytes(dir.path() / "bad.safetensors", "short");
  try {
    SafetensorsFile::open(dir.path() / "bad.safetensors");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("bad.safetensors: incomplete file"), std::string::npos) << error.what();
  }
  EXPECT_THROW(SafetensorsFile::open(dir.path() / "absent"), UserError);
}

}  // namespace
}  // namespace hydra::io
