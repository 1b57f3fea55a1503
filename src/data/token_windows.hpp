#pragma once
// A source of token files as rows: the documents end to end are one stream that is cut every `context` tokens, and the
// windows are visited in a new pseudo-random order each epoch (no window twice within one). Documents go on across
// windows.

#include <cstdint>
#include <string>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/data/data_config.hpp"
#include "hydrahead/data/token_file.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

class TokenWindows : public RowSource {
 public:
  // `name` stands in messages and document ids. Files whose documents do not end with `end_token` get one at each
  // document's end. UserError if there is not one full window.
  TokenWindows(std::string name, std::vector<TokenFile> files, std::int64_t context, Packing packing,
               text::TokenId end_token, std::uint64_t seed);

  std::int64_t tokens() const { return begin_.back(); }
  std::int64_t full_windows() const { return tokens() / context_; }
  // Row `index` of the source over all epochs.
  Row row(std::uint64_t index) const override;
  // The window-th stretch of the stream; the last one may be shorter.
  Row window(std::int64_t window) const;
  // Tokens [begin, end) of the stream as a row.
  Row stretch(std::int64_t begin, std::int64_t end) const;

 private:
  // Tokens [offset, offset + out.size()) of a document, its end token included.
  void read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const;
  std::int64_t document_at(std::int64_t position) const;

  std::string name_;
  std::vector<TokenFile> files_;
  std::vector<bool> adds_end_token_;          // for each file
  std::vector<std::int64_t> first_document_;  // of each file, and the number of all documents
  std::vector<std::int64_t> begin_{0};        // of each document in the stream, and the stream's length
  std::int64_t context_;
  Packing packing_;
  text::TokenId end_token_;
  std::uint64_t seed_;
};

}  // namespace hydra::data
