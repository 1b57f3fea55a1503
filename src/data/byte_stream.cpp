#include "byte_stream.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"

namespace hydra::data {
namespace {

// The file itself, through a buffer whose unused part the decoders see.
class RawFile {
 public:
  explicit RawFile(const fs::path& path) : path_(path.string()) {
    HYDRA_REQUIRE(fs::is_regular_file(path), path_, ": found no regular file, expected one");
    file_.reset(std::fopen(path_.c_str(), "rb"));
    HYDRA_REQUIRE(file_ != nullptr, path_, ": cannot be opened");
    refill();
  }

  std::span<const char> available() const { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void use(std::size_t count) {
    begin_ += count;
    consumed_ += static_cast<std::int64_t>(count);
  }
  // Reads on once everything is used; false at the end of the file.
  bool refill() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
      HYDRA_CHECK(std::ferror(file_.get()) == 0, path_, ": cannot be read");
    }
    return begin_ < end_;
  }
  std::int64_t consumed() const { return consumed_; }
  [[noreturn]] void fail(const char* kind) const {
    fail_request(path_, ": the ", kind, " data is damaged or cut at byte ", consumed_);
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{1} << 18);
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t consumed_ = 0;
};

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(RawFile file) : file_(std::move(file)) {}
  std::int64_t consumed() const override { return file_.consumed(); }
  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size() && file_.refill()) {
      const auto available = file_.available();
      const std::size_t count = std::min(available.size(), out.size() - done);
      std::copy_n(available.begin(), count, out.begin() + done);
      file_.use(count);
      done += count;
    }
    return done;
  }

 private:
  RawFile file_;
};

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(RawFile file) : file_(std::move(file)) {
    HYDRA_CHECK(inflateInit2(&state_, MAX_WBITS + 16) == Z_OK, "zlib: out of memory");
  }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream() override { inflateEnd(&state_); }
  std::int64_t consumed() const override { return file_.consumed(); }

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      if (!file_.refill()) {
        if (inside_member_) {
          file_.fail("gzip");
        }
        break;
      }
      if (!inside_member_) {  // members may follow each other
        inflateReset(&state_);
        inside_member_ = true;
      }
      const auto available = file_.available();
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(available.data()));
      state_.avail_in = static_cast<uInt>(available.size());
      state_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      const auto room = static_cast<uInt>(std::min<std::size_t>(out.size() - done, 1u << 30));
      state_.avail_out = room;
      const int code = inflate(&state_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END) {
        file_.fail("gzip");
      }
      file_.use(available.size() - state_.avail_in);
      done += room - state_.avail_out;
      inside_member_ = code != Z_STREAM_END;
    }
    return done;
  }

 private:
  RawFile file_;
  z_stream state_{};
  bool inside_member_ = true;
};

class XzStream : public ByteStream {
 public:
  explicit XzStream(RawFile file) : file_(std::move(file)) {
    HYDRA_CHECK(lzma_stream_decoder(&state_, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK, "liblzma: out of memory");
  }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;
  ~XzStream() override { lzma_end(&state_); }
  std::int64_t consumed() const override { return file_.consumed(); }

  std::size_t read(std::span<char> out) override {
    state_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    state_.avail_out = out.size();
    while (state_.avail_out > 0 && !ended_) {
      const bool more = file_.refill();
      const auto available = file_.available();
      state_.next_in = reinterpret_cast<const std::uint8_t*>(available.data());
      state_.avail_in = available.size();
      const lzma_ret code = lzma_code(&state_, more ? LZMA_RUN : LZMA_FINISH);
      if (code != LZMA_OK && code != LZMA_STREAM_END) {
        file_.fail("xz");
      }
      file_.use(available.size() - state_.avail_in);
      ended_ = code == LZMA_STREAM_END;
    }
    return out.size() - state_.avail_out;
  }

 private:
  RawFile file_;
  lzma_stream state_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(RawFile file) : file_(std::move(file)), state_(ZSTD_createDStream()) {
    HYDRA_CHECK(state_ != nullptr, "zstd: out of memory");
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
  }
  std::int64_t consumed() const override { return file_.consumed(); }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size) {
      if (!file_.refill() && !output_pending_) {
        if (inside_frame_) {
          file_.fail("zstd");
        }
        break;
      }
      const auto available = file_.available();
      ZSTD_inBuffer input{available.data(), available.size(), 0};
      const std::size_t before = output.pos;
      const std::size_t code = ZSTD_decompressStream(state_.get(), &output, &input);
      if (ZSTD_isError(code) != 0 || (input.size == 0 && output.pos == before)) {
        file_.fail("zstd");
      }
      file_.use(input.pos);
      inside_frame_ = code != 0;
      output_pending_ = inside_frame_ && output.pos == output.size;
    }
    return output.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  RawFile file_;
  std::unique_ptr<ZSTD_DStream, Free> state_;
  bool inside_frame_ = false;
  bool output_pending_ = false;  // the decoder may hold output although all input is used
};

}  // namespace

std::unique_ptr<ByteStream> open_bytes(const std::filesystem::path& path) {
  RawFile file(path);
  const auto available = file.available();
  const std::string_view head(available.data(), std::min<std::size_t>(available.size(), 6));
  if (head.starts_with("\x1F\x8B")) {
    return std::make_unique<GzipStream>(std::move(file));
  }
  if (head.starts_with(std::string_view("\xFD"
                                        "7zXZ\0",
                                        6))) {
    return std::make_unique<XzStream>(std::move(file));
  }
  if (head.starts_with("\x28\xB5\x2F\xFD")) {
    return std::make_unique<ZstdStream>(std::move(file));
  }
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace hydra::data
