#include "hydrahead/metrics/event_file.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "hydrahead/base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace hydra::metrics {
namespace {

// RFC 3720 appendix B.4, and the usual check value.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) {
    rising.push_back(c);
  }
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(""), 0u);
  // Masked: rotated right by 15, plus the constant.
  EXPECT_EQ(masked_crc32c("123456789"), ((0xE3069283u >> 15) | (0xE3069283u << 17)) + 0xA282EAD8u);
}

// A reader of its own: records, then protobuf fields.
struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  std::map<std::string, float> values;
  bool session_start = false;
};

template <class T>
T scalar_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof(T)).data(), sizeof(T));
  return value;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

// Calls visit(field, varint or fixed value, bytes) for each field.
template <class Visit>
void read_fields(std::string_view bytes, const Visit& visit) {
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    std::uint64_t number = 0;
    std::string_view content;
    switch (key & 7) {
      case 0: number = take_varint(bytes); break;
      case 1:
        number = scalar_at<std::uint64_t>(bytes, 0);
        bytes.remove_prefix(8);
        break;
      case 2: {
        const std::uint64_t size = take_varint(bytes);
        content = bytes.substr(0, size);
        ASSERT_EQ(content.size(), size);
        bytes.remove_prefix(size);
        break;
      }
      case 5:
        number = scalar_at<std::uint32_t>(bytes, 0);
        bytes.remove_prefix(4);
        break;
      default: FAIL() << "wire type " << (key & 7);
    }
    visit(key >> 3, number, content);
  }
}

std::vector<Event> read_events(const fs::path& path) {
  const std::string file = read_file(path);
  std::string_view rest = file;
  std::vector<Event> events;
  while (!rest.empty()) {
    const auto size = scalar_at<std::uint64_t>(rest, 0);
    EXPECT_EQ(scalar_at<std::uint32_t>(rest, 8), masked_crc32c(rest.substr(0, 8)));
    const std::string_view payload = rest.substr(12, size);
    EXPECT_EQ(scalar_at<std::uint32_t>(rest, 12 + size), masked_crc32c(payload));
    rest.remove_prefix(16 + size);
    Event event;
    read_fields(payload, [&](std::uint64_t field, std::uint64_t number, std::string_view bytes) {
      if (field == 1) {
        event.wall_time = std::bit_cast<double>(number);
      } else if (field == 2) {
        event.step = static_cast<std::int64_t>(number);
      } else if (field == 3) {
        event.version = bytes;
      } else if (field == 7) {
        read_fields(
            bytes, [&](std::uint64_t f, std::uint64_t n, std::string_view) { event.session_start = f == 1 && n == 1; });
      } else if (field == 5) {
        read_fields(bytes, [&](std::uint64_t, std::uint64_t, std::string_view value) {
          std::string tag;
          float simple = 0;
          read_fields(value, [&](std::uint64_t f, std::uint64_t n, std::string_view text) {
            if (f == 1) {
              tag = text;
            } else if (f == 2) {
              simple = std::bit_cast<float>(static_cast<std::uint32_t>(n));
            }
          });
          event.values[tag] = simple;
        });
      }
    });
    events.push_back(event);
  }
  return events;
}

TEST(EventFile, ReadsBack) {
  test::TempDir dir;
  EventFile file(dir.path() / "tb", 1700000000.25, 0);
  const std::vector<Scalar> scalars = {{"align/loss", 0.5}, {"align/lr", 1e-3}};
  file.write(1700000001.5, 300, scalars);
  const std::vector<Event> events = read_events(file.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1700000000.25);
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[1].wall_time, 1700000001.5);
  EXPECT_EQ(events[1].values, (std::map<std::string, float>{{"align/loss", 0.5f}, {"align/lr", 1e-3f}}));
}

TEST(EventFile, ResumeStartsASessionInAFileOfItsOwn) {
  test::TempDir dir;
  const EventFile first(dir.path(), 1700000000.0, 0);
  const EventFile second(dir.path(), 1700000000.0, 41);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(first.path().filename().string().starts_with("events.out.tfevents.1700000000."));
  const std::vector<Event> events = read_events(second.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 41);
}

}  // namespace
}  // namespace hydra::metrics
