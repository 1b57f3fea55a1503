#pragma once
// Token files in Megatron's format (engineering.md A9): PREFIX.bin holds the ids end to end, PREFIX.idx the boundaries,
// PREFIX.json (ours, optional when reading) the tokenizer's hash and the range of the ids. Offsets are 64-bit.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hydrahead/base/expected.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"

namespace hydra::data {

enum class TokenType : std::uint8_t { int32 = 4, uint16 = 8 };  // Megatron's dtype codes
std::size_t bytes_per_token(TokenType type);
// The narrowest type that holds every id below id_limit.
TokenType token_type_for(std::int64_t id_limit);

// Boundaries of the documents: document d holds the tokens [begin[d], begin[d + 1]).
struct TokenIndex {
  TokenType type = TokenType::int32;
  std::vector<std::int64_t> begin{0};
};

// Checks every field of an .idx file against itself and the size of its .bin; never throws on bad bytes.
Expected<TokenIndex> parse_token_index(std::span<const std::byte> idx, std::uint64_t bin_bytes);

class TokenFile {
 public:
  // Maps PREFIX.bin and reads PREFIX.idx and, if it exists, PREFIX.json.
  static TokenFile open(const std::filesystem::path& prefix);

  std::int64_t documents() const { return static_cast<std::int64_t>(index_.begin.size()) - 1; }
  std::int64_t tokens() const { return index_.begin.back(); }
  std::int64_t length(std::int64_t document) const { return index_.begin.at(document + 1) - index_.begin.at(document); }
  TokenType type() const { return index_.type; }
  const std::filesystem::path& prefix() const { return prefix_; }
  // From PREFIX.json; absent for files of other tools.
  const std::optional<std::string>& tokenizer_sha256() const { return tokenizer_sha256_; }
  std::optional<std::int64_t> largest_id() const { return largest_id_; }

  // Ids at or above `id_limit` become an error of read(); with PREFIX.json the whole file is judged at once. A model
  // passes the rows of its embedding, so that no id reaches the device unchecked.
  void require_ids_below(std::int64_t id_limit);

  // Tokens [offset, offset + out.size()) of a document. UserError if an id is negative or at the limit or above.
  void read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const;
  std::vector<std::int32_t> read(std::int64_t document) const;

 private:
  TokenFile(std::filesystem::path prefix, MappedFile bin, TokenIndex index)
      : prefix_(std::move(prefix)), bin_(std::move(bin)), index_(std::move(index)) {}

  std::filesystem::path prefix_;
  MappedFile bin_;
  TokenIndex index_;
  std::optional<std::string> tokenizer_sha256_;
  std::optional<std::int64_t> largest_id_;
  std::int64_t id_limit_ = std::int64_t{1} << 31;  // no limit but that of the type
};

// Writes PREFIX.{bin,idx,json} under temporary names that become final in commit(); the destructor removes what was not
// committed. Refuses (UserError) a PREFIX of which a file exists.
class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path prefix, std::int64_t id_limit);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  void add_document(std::span<const std::int32_t> ids);
  // `description` is merged into PREFIX.json beside what the writer knows (type, counts, id_limit, largest_id).
  void commit(const Json& description);

  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens() const { return tokens_; }

 private:
  std::filesystem::path prefix_;
  std::int64_t id_limit_;
  TokenType type_;
  std::ofstream bin_;
  std::vector<char> bytes_;  // of one document
  std::vector<std::int32_t> lengths_;
  std::int64_t tokens_ = 0;
  std::int32_t largest_id_ = -1;
};

}  // namespace hydra::data
