// Offsets and positions of a flat batch (overview.md section 5: documents restart everywhere).
#include "hydrahead/ops/sequences.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"

namespace hydra::ops {

Sequences make_sequences(const std::vector<std::int64_t>& lengths, const at::Device& device,
                         const std::vector<std::int64_t>& start) {
  HYDRA_CHECK(start.empty() || start.size() == lengths.size(), "one start a sequence: ", start.size(), " starts for ",
              lengths.size(), " lengths");
  Sequences result;
  result.offsets.push_back(0);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    HYDRA_CHECK(lengths[s] >= 0, "length ", s, " is ", lengths[s]);
    if (lengths[s] == 0) {
      continue;
    }
    result.offsets.push_back(result.offsets.back() + lengths[s]);
    result.start.push_back(start.empty() ? 0 : start[s]);
    result.max_length = std::max(result.max_length, lengths[s]);
  }
  HYDRA_CHECK(result.rows() <= std::numeric_limits<std::int32_t>::max(), "a batch of ", result.rows(),
              " rows; its offsets are int32");
  auto offsets = at::empty({result.count() + 1}, at::kInt);
  std::copy(result.offsets.begin(), result.offsets.end(), offsets.mutable_data_ptr<std::int32_t>());
  auto positions = at::empty({result.rows()}, at::kLong);
  auto* position = positions.mutable_data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < result.count(); ++s) {
    for (std::int64_t i = 0; i < result.length(s); ++i) {
      *position++ = result.start[s] + i;
    }
  }
  result.offsets_device = offsets.to(device);
  result.positions = positions.to(device);
  return result;
}

}  // namespace hydra::ops
