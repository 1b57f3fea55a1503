#pragma once
// The training rows of a run (method.md section 8): sources mixed by shares of tokens, windows of token files visited
// in an order of their own each epoch, and synthetic retrieval rows. Row i is a pure function of (config, seed, i), in
// O(1).

#include <cstdint>
#include <memory>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/data/data_config.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::data {

// Rows of `context` tokens or fewer. Text sources are tokenized into the user's cache on first use. Ids are checked
// against vocab_size (the model's embedding rows). UserError: no source, too little data, another tokenizer's token
// file. `tokenizer` must outlive the rows.
std::unique_ptr<RowSource> make_rows(const DataConfig& config, std::int64_t context, Packing packing,
                                     const text::Tokenizer& tokenizer, std::int64_t vocab_size, std::uint64_t seed);

// The first `tokens` tokens of the held-out text in windows of `context`, always the same; empty without a path.
std::vector<Row> validation_rows(const ValidationConfig& config, std::int64_t context, Packing packing,
                                 const text::Tokenizer& tokenizer, std::int64_t vocab_size);

}  // namespace hydra::data
