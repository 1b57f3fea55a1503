#include "hydrahead/data/token_file.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace hydra::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and read as they lie");

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::size_t header_bytes = 9 + 8 + 1 + 8 + 8;  // magic, version, type, sequences, document bounds
constexpr std::int64_t no_limit = std::int64_t{1} << 31;

fs::path with_suffix(const fs::path& prefix, const char* suffix) { return prefix.string() + suffix; }

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
void store(std::ofstream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class... Args>
ParseError bad(const Args&... args) {
  return ParseError{detail::concat(args...)};
}

std::string_view name_of(TokenType type) { return type == TokenType::uint16 ? "uint16" : "int32"; }

}  // namespace

std::size_t bytes_per_token(TokenType type) { return type == TokenType::uint16 ? 2 : 4; }

TokenType token_type_for(std::int64_t id_limit) { return id_limit <= 65536 ? TokenType::uint16 : TokenType::int32; }

Expected<TokenIndex> parse_token_index(std::span<const std::byte> idx, std::uint64_t bin_bytes) {
  if (idx.size() < header_bytes || std::memcmp(idx.data(), magic.data(), magic.size()) != 0) {
    return bad("found no Megatron index, expected the magic MMIDIDX and a header of ", header_bytes, " bytes");
  }
  const auto version = load<std::uint64_t>(idx, 9);
  if (version != 1) {
    return bad("version: found ", version, ", expected 1");
  }
  const auto code = load<std::uint8_t>(idx, 17);
  if (code != static_cast<std::uint8_t>(TokenType::int32) && code != static_cast<std::uint8_t>(TokenType::uint16)) {
    return bad("dtype code: found ", int{code}, ", expected 4 (int32) or 8 (uint16)");
  }
  TokenIndex index{static_cast<TokenType>(code), {}};
  const std::uint64_t width = bytes_per_token(index.type);
  const auto sequences = load<std::uint64_t>(idx, 18), bounds = load<std::uint64_t>(idx, 26);
  const std::uint64_t body = idx.size() - header_bytes;
  if (sequences > body / 12 || bounds > body / 8 || 12 * sequences + 8 * bounds != body || bounds == 0) {
    return bad("found ", sequences, " sequences and ", bounds, " document bounds in ", body,
               " bytes, expected 12 bytes a sequence, 8 a bound and at least one bound");
  }

  const std::size_t lengths_at = header_bytes, pointers_at = lengths_at + 4 * sequences;
  const std::size_t bounds_at = pointers_at + 8 * sequences;
  std::uint64_t position = 0;  // in the .bin, in bytes; sequences lie end to end
  std::uint64_t sequence = 0;
  index.begin.reserve(bounds);
  for (std::uint64_t d = 0; d < bounds; ++d) {
    const auto bound = load<std::int64_t>(idx, bounds_at + 8 * d);
    if (bound < static_cast<std::int64_t>(sequence) || bound > static_cast<std::int64_t>(sequences) ||
        (d == 0 && bound != 0) || (d + 1 == bounds && bound != static_cast<std::int64_t>(sequences))) {
      return bad("document bound ", d, ": found ", bound, ", expected rising values from 0 to ", sequences);
    }
    for (; sequence < static_cast<std::uint64_t>(bound); ++sequence) {
      const auto length = load<std::int32_t>(idx, lengths_at + 4 * sequence);
      const auto pointer = load<std::int64_t>(idx, pointers_at + 8 * sequence);
      if (length < 0 || pointer != static_cast<std::int64_t>(position)) {
        return bad("sequence ", sequence, ": found length ", length, " at byte ", pointer,
                   ", expected a length of 0 or more at byte ", position);
      }
      position += width * static_cast<std::uint64_t>(length);
    }
    index.begin.push_back(static_cast<std::int64_t>(position / width));
  }
  if (position != bin_bytes) {
    return bad("found a .bin of ", bin_bytes, " bytes, expected ", position, " for ", position / width, " tokens");
  }
  return index;
}

TokenFile TokenFile::open(const fs::path& prefix) {
  const fs::path idx_path = with_suffix(prefix, ".idx"), json_path = with_suffix(prefix, ".json");
  MappedFile bin = MappedFile::open(with_suffix(prefix, ".bin"));
  const MappedFile idx = MappedFile::open(idx_path);
  TokenFile file(prefix, std::move(bin), TokenIndex{});
  file.index_ = parse_token_index(idx.bytes(), file.bin_.bytes().size()).value_or_fail(idx_path.string());
  if (!file.bin_.bytes().empty()) {  // rows are drawn from all over the file
    ::madvise(const_cast<std::byte*>(file.bin_.bytes().data()), file.bin_.bytes().size(), MADV_RANDOM);
  }
  if (!fs::exists(json_path)) {
    return file;
  }
  const Json about = read_json_file(json_path.string());
  const auto integer = [&](const char* key) {
    const bool known = about.is_object() && about.contains(key) && about[key].is_number_integer();
    HYDRA_REQUIRE(known, json_path.string(), ": ", key, ": found no integer, expected one");
    return about[key].get<std::int64_t>();
  };
  HYDRA_REQUIRE(integer("tokens") == file.tokens() && integer("documents") == file.documents(), json_path.string(),
                ": found ", integer("documents"), " documents of ", integer("tokens"), " tokens, expected ",
                file.documents(), " of ", file.tokens(), " as in ", idx_path.string());
  file.largest_id_ = integer("largest_id");
  file.id_limit_ = integer("id_limit");
  if (about.contains("tokenizer_sha256") && about["tokenizer_sha256"].is_string()) {
    file.tokenizer_sha256_ = about["tokenizer_sha256"].get<std::string>();
  }
  return file;
}

void TokenFile::require_ids_below(std::int64_t id_limit) {
  HYDRA_REQUIRE(largest_id_.value_or(-1) < id_limit, prefix_.string(), ": found token id ", largest_id_.value_or(-1),
                ", expected ids below ", id_limit);
  id_limit_ = std::min(id_limit_, id_limit);
}

void TokenFile::read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const {
  HYDRA_CHECK(document >= 0 && document < documents() && offset >= 0 &&
                  offset + static_cast<std::int64_t>(out.size()) <= length(document),
              prefix_.string(), ": tokens [", offset, ", +", out.size(), ") of document ", document);
  const auto first = static_cast<std::size_t>(index_.begin[document] + offset);
  const std::byte* source = bin_.bytes().data() + first * bytes_per_token(index_.type);
  if (index_.type == TokenType::uint16) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t id;
      std::memcpy(&id, source + 2 * i, 2);
      out[i] = id;
    }
  } else if (!out.empty()) {
    std::memcpy(out.data(), source, out.size_bytes());
  }
  for (const std::int32_t id : out) {
    HYDRA_REQUIRE(id >= 0 && id < id_limit_, prefix_.string(), ".bin: document ", document, ": found token id ", id,
                  ", expected ids from 0 to ", id_limit_ - 1);
  }
}

std::vector<std::int32_t> TokenFile::read(std::int64_t document) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length(document)));
  read(document, 0, ids);
  return ids;
}

TokenFileWriter::TokenFileWriter(fs::path prefix, std::int64_t id_limit)
    : prefix_(std::move(prefix)), id_limit_(id_limit), type_(token_type_for(id_limit)) {
  HYDRA_CHECK(id_limit >= 1 && id_limit <= no_limit, "id_limit ", id_limit);
  for (const char* suffix : {".bin", ".idx", ".json"}) {
    const fs::path path = with_suffix(prefix_, suffix);
    HYDRA_REQUIRE(!fs::exists(path), path.string(), ": exists already; expected a new prefix");
  }
  bin_.open(with_suffix(prefix_, ".bin.tmp"), std::ios::binary | std::ios::trunc);
  HYDRA_REQUIRE(bin_.is_open(), prefix_.string(), ".bin: cannot be written; expected a prefix in a writable directory");
}

TokenFileWriter::~TokenFileWriter() {
  bin_.close();
  for (const char* suffix : {".bin.tmp", ".idx.tmp", ".json.tmp"}) {  // absent after commit()
    std::error_code ignored;
    fs::remove(with_suffix(prefix_, suffix), ignored);
  }
}

void TokenFileWriter::add_document(std::span<const std::int32_t> ids) {
  HYDRA_CHECK(ids.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), prefix_.string(),
              ": a document of ", ids.size(), " tokens; the format holds lengths below 2^31");
  bytes_.resize(ids.size() * bytes_per_token(type_));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    HYDRA_CHECK(ids[i] >= 0 && ids[i] < id_limit_, prefix_.string(), ": token id ", ids[i], " outside [0, ", id_limit_,
                ")");
    largest_id_ = std::max(largest_id_, ids[i]);
    if (type_ == TokenType::uint16) {
      const auto narrow = static_cast<std::uint16_t>(ids[i]);
      std::memcpy(bytes_.data() + 2 * i, &narrow, 2);
    }
  }
  if (type_ == TokenType::int32 && !ids.empty()) {
    std::memcpy(bytes_.data(), ids.data(), ids.size_bytes());
  }
  bin_.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  lengths_.push_back(static_cast<std::int32_t>(ids.size()));
  tokens_ += static_cast<std::int64_t>(ids.size());
}

void TokenFileWriter::commit(const Json& description) {
  const fs::path bin_path = with_suffix(prefix_, ".bin"), idx_path = with_suffix(prefix_, ".idx");
  bin_.close();
  HYDRA_CHECK(!bin_.fail(), bin_path.string(), ": could not be written to the end; is the disk full?");

  std::ofstream idx(with_suffix(prefix_, ".idx.tmp"), std::ios::binary | std::ios::trunc);
  idx.write(magic.data(), magic.size());
  store<std::uint64_t>(idx, 1);
  store(idx, static_cast<std::uint8_t>(type_));
  store<std::uint64_t>(idx, lengths_.size());      // a document is one sequence
  store<std::uint64_t>(idx, lengths_.size() + 1);  // bounds
  idx.write(reinterpret_cast<const char*>(lengths_.data()), static_cast<std::streamsize>(4 * lengths_.size()));
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    store(idx, pointer);
    pointer += static_cast<std::int64_t>(bytes_per_token(type_)) * length;
  }
  for (std::int64_t bound = 0; bound <= documents(); ++bound) {
    store(idx, bound);
  }
  idx.close();
  HYDRA_CHECK(!idx.fail(), idx_path.string(), ": could not be written to the end; is the disk full?");

  Json about = {{"dtype", name_of(type_)},
                {"documents", documents()},
                {"tokens", tokens_},
                {"id_limit", id_limit_},
                {"largest_id", largest_id_}};
  about.update(description);
  sync_path(with_suffix(prefix_, ".bin.tmp"));
  sync_path(with_suffix(prefix_, ".idx.tmp"));
  fs::rename(with_suffix(prefix_, ".bin.tmp"), bin_path);
  write_file_atomic(with_suffix(prefix_, ".json"), about.dump(2) + "\n");
  fs::rename(with_suffix(prefix_, ".idx.tmp"), idx_path);  // last: a reader finds all three or no index
  sync_path(prefix_.has_parent_path() ? prefix_.parent_path() : fs::path("."));
}

}  // namespace hydra::data
