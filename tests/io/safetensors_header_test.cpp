#include "hydrahead/io/safetensors_header.hpp"

#include <gtest/gtest.h>

#include "tests/support/tiny_model.hpp"

namespace hydra::io {
namespace {

Expected<SafetensorsHeader> parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

Expected<SafetensorsHeader> parse_json_header(const std::string& json, std::size_t data_bytes) {
  return parse(test::glue_safetensors(json, std::string(data_bytes, 'x')));
}

std::string tensor(const std::string& name, const std::string& shape, int begin, int end,
                   const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(SafetensorsHeader, ReadsScalarsEmptyTensorsAndMetadata) {
  const auto header = parse_json_header("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("a", "[]", 0, 4) + "," +
                                            tensor("b", "[0,7]", 4, 4) + "," + tensor("c", "[3]", 4, 10, "BF16") + "}",
                                        10);
  ASSERT_TRUE(header) << header.error();
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_TRUE(header->tensors.at("a").shape.empty());
  EXPECT_EQ(header->tensors.at("b").shape, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(header->tensors.at("c").end, 10u);
  EXPECT_EQ(header->tensors.size(), 3u);
}

struct Bad {
  const char* name;
  std::string json;
  std::size_t data_bytes;
  std::string message;
};

class BadHeader : public testing::TestWithParam<Bad> {};

TEST_P(BadHeader, IsRefusedWithItsReason) {
  const auto header = parse_json_header(GetParam().json, GetParam().data_bytes);
  ASSERT_FALSE(header);
  EXPECT_NE(header.error().find(GetParam().message), std::string::npos) << header.error();
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadHeader,
    testing::Values(
        Bad{"overlap", "{" + tensor("k_proj", "[2]", 0, 8) + "," + tensor("v_proj", "[2]", 4, 12) + "}", 12,
            "tensors k_proj and v_proj overlap at byte 4"},
        Bad{"shared", "{" + tensor("k_proj", "[2]", 0, 8) + "," + tensor("v_proj", "[2]", 0, 8) + "}", 8,
            "tensors k_proj and v_proj overlap at byte 0"},
        Bad{"hole", "{" + tensor("a", "[1]", 0, 4) + "," + tensor("b", "[1]", 8, 12) + "}", 12,
            "hole: bytes 4 to 8 before tensor b"},
        Bad{"duplicate", "{" + tensor("a", "[1]", 0, 4) + "," + tensor("a", "[1]", 4, 8) + "}", 8, "duplicate name a"},
        Bad{"duplicate_metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "duplicate name __metadata__"},
        Bad{"duplicate_key", R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
            "duplicate key dtype"},
        Bad{"size", "{" + tensor("big", "[1000,1000]", 0, 4) + "}", 4, "tensor big: data_offsets [0, 4] do not match"},
        Bad{"overflow", "{" + tensor("huge", "[4294967296,4294967296,4]", 0, 0) + "}", 0, "more than 2^63"},
        Bad{"negative", "{" + tensor("a", "[-1]", 0, 4) + "}", 4, "tensor a: shape"},
        Bad{"fraction", "{" + tensor("a", "[1.0]", 0, 4) + "}", 4, "tensor a: shape"},
        Bad{"beyond_64_bits", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}})", 4,
            "tensor a: data_offsets"},
        Bad{"backwards", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "tensor a: data_offsets"},
        Bad{"dtype", "{" + tensor("a", "[1]", 0, 4, "F31") + "}", 4, "tensor a: unknown dtype"},
        Bad{"missing_key", R"({"a":{"dtype":"F32","shape":[1]}})", 0, "tensor a: expected an object"},
        Bad{"no_object", R"({"a":[1]})", 0, "a: expected an object"},
        Bad{"metadata", R"({"__metadata__":{"n":1}})", 0, "__metadata__: n is no string"},
        Bad{"nesting", R"({"a":{"dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4]}})", 4, "nested too deeply"},
        Bad{"json", R"({"a":)", 0, "not valid JSON"}, Bad{"array", "[  ]", 0, "does not start with '{'"},
        Bad{"short", "{" + tensor("a", "[4]", 0, 16) + "}", 15, "bytes expected"},
        Bad{"trailing", "{" + tensor("a", "[1]", 0, 4) + "}", 20, "last 16 bytes are not covered"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(SafetensorsHeader, RefusesBadLengths) {
  EXPECT_NE(parse("").error().find("0 present"), std::string::npos);
  EXPECT_NE(parse("1234567").error().find("7 present"), std::string::npos);
  EXPECT_NE(parse(std::string(8, '\xff')).error().find("header length 18446744073709551615"), std::string::npos);
  EXPECT_NE(parse(std::string(16, '\0')).error().find("header length 0"), std::string::npos);
  EXPECT_NE(parse("version https://git-lfs.github.com/spec/v1\noid").error().find("pointer file"), std::string::npos);
}

TEST(SafetensorsHeader, DeepNestingAndManyNamesStayCheap) {
  EXPECT_FALSE(parse_json_header(detail::concat("{\"a\":", std::string(1'000'000, '[')), 0));
  std::string json = "{";
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    json += (i > 0 ? "," : "") + tensor(detail::concat("t", i), "[1]", 4 * i, 4 * i + 4);
  }
  const auto header = parse_json_header(json + "}", 4 * count);
  ASSERT_TRUE(header) << header.error();
  EXPECT_EQ(header->tensors.size(), static_cast<std::size_t>(count));
}

TEST(SafetensorsIndex, KeepsPlainFileNamesOnly) {
  const auto index = parse_safetensors_index(R"({"metadata":{"total_size":1},"weight_map":{"a":"x.safetensors"}})");
  ASSERT_TRUE(index) << index.error();
  EXPECT_EQ(index->at("a"), "x.safetensors");
  for (const char* bad : {R"({"weight_map":{"a":"../x.safetensors"}})", R"({"weight_map":{"a":"/etc/passwd"}})",
                          R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":{"b":"c"}}})", R"({"weight_map":[]})",
                          R"({"weight_map":{"a":"x","a":"y"}})", R"({"weight_map":{}})", R"({})", R"([])", "", "{",
                          R"({"weight_map":{"a":"x"},"weight_map":{"b":"y"}})", R"({"weight_map":"x"})"}) {
    EXPECT_FALSE(parse_safetensors_index(bad)) << bad;
  }
}

}  // namespace
}  // namespace hydra::io
