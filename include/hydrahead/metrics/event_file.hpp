#pragma once
// A TensorBoard event file without protobuf: TFRecord framing (length, masked CRC32C of both parts) around
// Event{wall_time=1 double, step=2, file_version=3, summary=5{value=1{tag=1, simple_value=2 float}}, session_log=7}.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hydra::metrics {

struct Scalar {
  std::string tag;
  double value = 0.0;
};

class EventFile {
 public:
  // A new file "events.out.tfevents.<time>.<host>.<n>" in `dir` (made if absent). first_step > 0 (a resumed run) makes
  // TensorBoard drop what earlier files of this directory hold from that step on.
  EventFile(const std::filesystem::path& dir, double wall_time, std::int64_t first_step);

  void write(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_record(std::string_view event);
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// CRC-32C (Castagnoli) of bytes, and TFRecord's masked form of it.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace hydra::metrics
