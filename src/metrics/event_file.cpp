#include "hydrahead/metrics/event_file.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "hydrahead/base/error.hpp"

namespace hydra::metrics {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0u);  // reflected Castagnoli polynomial
    }
    table[byte] = crc;
  }
  return table;
}();

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  }
}

// Protobuf wire format: field key, then varint, 8-byte, 4-byte or length-delimited content.
enum WireType : std::uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}
void append_key(std::string& out, std::uint32_t field, WireType type) { append_varint(out, (field << 3) | type); }
void append_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  append_key(out, field, delimited);
  append_varint(out, bytes.size());
  out.append(bytes);
}
void append_float(std::string& out, std::uint32_t field, float value) {
  append_key(out, field, fixed32);
  append_little_endian(out, std::bit_cast<std::uint32_t>(value));
}

std::string event_start(double wall_time, std::int64_t step) {
  std::string event;
  append_key(event, 1, fixed64);
  append_little_endian(event, std::bit_cast<std::uint64_t>(wall_time));
  append_key(event, 2, varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFu];
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

EventFile::EventFile(const std::filesystem::path& dir, double wall_time, std::int64_t first_step) {
  std::filesystem::create_directories(dir);
  const std::string start =
      "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(wall_time)) + "." + host_name() + ".";
  for (int n = 0; !file_; ++n) {  // a restart within the same second gets the next number
    path_ = dir / (start + std::to_string(n));
    file_.reset(std::fopen(path_.c_str(), "wbx"));
    if (!file_ && errno != EEXIST) {
      throw Error(path_.string() + ": cannot be written: " + std::strerror(errno));
    }
  }
  std::string version = event_start(wall_time, 0);
  append_bytes(version, 3, "brain.Event:2");
  write_record(version);
  if (first_step > 0) {
    std::string session;  // SessionLog{status=1: START=1}
    append_key(session, 1, varint);
    append_varint(session, 1);
    std::string event = event_start(wall_time, first_step);
    append_bytes(event, 7, session);
    write_record(event);
  }
}

void EventFile::write(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_float(value, 2, static_cast<float>(scalar.value));
    append_bytes(summary, 1, value);
  }
  std::string event = event_start(wall_time, step);
  append_bytes(event, 5, summary);
  write_record(event);
}

void EventFile::write_record(std::string_view event) {
  std::string length;
  append_little_endian(length, static_cast<std::uint64_t>(event.size()));
  std::string record = length;
  append_little_endian(record, masked_crc32c(length));
  record.append(event);
  append_little_endian(record, masked_crc32c(event));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() || std::fflush(file_.get()) != 0) {
    throw Error(path_.string() + ": writing failed: " + std::strerror(errno));
  }
}

}  // namespace hydra::metrics
