#pragma once
// Training rows, torch-free. A row is `context` tokens or fewer, made of one or several sequences (documents);
// a micro-batch is several rows end to end.

#include <cstdint>
#include <string>
#include <vector>

namespace hydra::data {

struct Row {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;    // next token of the same sequence, -1 where none is counted
  std::vector<std::int64_t> lengths;   // of the sequences, in order; sums to ids.size()
  std::vector<std::string> documents;  // "source:document" of each sequence, for the log of document ids
};

// The rows of a run: a pure function of (seed, index), so that resume and any number of ranks see the same data.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual Row row(std::uint64_t index) const = 0;
};

}  // namespace hydra::data
