#include "token_windows.hpp"

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "schedule.hpp"

namespace hydra::data {
namespace {

// Whether none of up to 64 documents spread over the file ends with the token. Documents that were split end with it
// only at their last part, so a single one that does is enough.
bool lacks_end_tokens(const TokenFile& file, text::TokenId end_token) {
  const std::int64_t inspected = std::min<std::int64_t>(64, file.documents());
  for (std::int64_t i = 0; i < inspected; ++i) {
    const std::int64_t document = i * file.documents() / inspected;
    std::int32_t last = 0;
    if (file.length(document) > 0) {
      file.read(document, file.length(document) - 1, std::span(&last, 1));
      if (last == end_token) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

TokenWindows::TokenWindows(std::string name, std::vector<TokenFile> files, std::int64_t context, Packing packing,
                           text::TokenId end_token, std::uint64_t seed)
    : name_(std::move(name)),
      files_(std::move(files)),
      context_(context),
      packing_(packing),
      end_token_(end_token),
      seed_(seed) {
  std::int64_t empty = 0;
  for (const TokenFile& file : files_) {
    adds_end_token_.push_back(lacks_end_tokens(file, end_token));
    first_document_.push_back(static_cast<std::int64_t>(begin_.size()) - 1);
    for (std::int64_t document = 0; document < file.documents(); ++document) {
      const std::int64_t length = file.length(document);
      empty += length == 0 ? 1 : 0;
      begin_.push_back(begin_.back() + length + (length > 0 && adds_end_token_.back() ? 1 : 0));
    }
  }
  first_document_.push_back(static_cast<std::int64_t>(begin_.size()) - 1);
  if (empty > 0) {
    log_info(name_, ": ", empty, " documents without tokens are left out");
  }
  HYDRA_REQUIRE(tokens() > 0, name_, ": found no token in ", first_document_.back(), " documents");
}

std::int64_t TokenWindows::document_at(std::int64_t position) const {
  return std::upper_bound(begin_.begin(), begin_.end(), position) - begin_.begin() - 1;
}

void TokenWindows::read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const {
  const auto file = static_cast<std::size_t>(
      std::upper_bound(first_document_.begin(), first_document_.end() - 1, document) - first_document_.begin() - 1);
  const std::int64_t inside = document - first_document_[file];
  const auto stored =
      static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), files_[file].length(inside) - offset));
  files_[file].read(inside, offset, out.first(stored));
  if (stored < out.size()) {
    out[stored] = end_token_;
  }
}

Row TokenWindows::row(std::uint64_t index) const {
  const auto windows = static_cast<std::uint64_t>(full_windows());
  return window(static_cast<std::int64_t>(permuted(index % windows, windows, seed_, index / windows)));
}

Row TokenWindows::window(std::int64_t window) const {
  const std::int64_t begin = window * context_;
  return stretch(begin, std::min(begin + context_, tokens()));
}

Row TokenWindows::stretch(std::int64_t begin, std::int64_t end) const {
  HYDRA_CHECK(begin >= 0 && begin < end && end <= tokens(), name_, ": tokens ", begin, " to ", end, " of ", tokens());
  Row row;
  row.ids.resize(static_cast<std::size_t>(end - begin));
  row.labels.assign(row.ids.size(), -1);
  std::int64_t document = document_at(begin);
  for (std::int64_t at = begin; at < end; ++document) {
    const std::int64_t stop = std::min(end, begin_[static_cast<std::size_t>(document + 1)]);
    if (stop == at) {
      continue;  // a document without tokens
    }
    const auto part =
        std::span(row.ids).subspan(static_cast<std::size_t>(at - begin), static_cast<std::size_t>(stop - at));
    read(document, at - begin_[static_cast<std::size_t>(document)], part);
    std::copy(part.begin() + 1, part.end(), row.labels.begin() + (at - begin));
    // The label of the part's last token: none at a document's end in reset mode, else the stream's next token.
    const bool document_ends = stop == begin_[static_cast<std::size_t>(document + 1)];
    if (stop < tokens() && !(document_ends && packing_ == Packing::reset)) {
      const std::int64_t next = document_at(stop);
      read(next, stop - begin_[static_cast<std::size_t>(next)],
           std::span(row.labels).subspan(static_cast<std::size_t>(stop - begin) - 1, 1));
    }
    row.lengths.push_back(stop - at);
    row.documents.push_back(detail::concat(name_, ":", document));
    at = stop;
  }
  if (packing_ == Packing::eos_join) {  // one text
    row.lengths = {end - begin};
    if (row.documents.size() > 1) {
      row.documents = {row.documents.front() + "-" + row.documents.back().substr(name_.size() + 1)};
    }
  }
  return row;
}

}  // namespace hydra::data
