// Softmax attention of one layer's rows, in training over the rows alone, in inference over the KV cache that they are
// first appended to (method.md section 9). The scale is d^-0.5; the log scale s_t is already on the queries.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "attention.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/attention.hpp"

namespace hydra::model {
namespace {

// Writes `rows` behind the first `used` rows of `buffer` and returns all of them as a view. A full buffer grows by an
// eighth: a row is copied about eight times in all, which is little beside the reads of attention, and at most an
// eighth of a long cache stays empty.
at::Tensor append(at::Tensor& buffer, std::int64_t used, const at::Tensor& rows) {
  const std::int64_t needed = used + rows.size(0);
  if (!buffer.defined() || buffer.size(0) < needed) {
    const std::int64_t grown_capacity = buffer.defined() ? buffer.size(0) + buffer.size(0) / 8 + 64 : 0;
    at::Tensor grown = at::empty({std::max(needed, grown_capacity), rows.size(1), rows.size(2)}, rows.options());
    if (used > 0) {
      grown.narrow(0, 0, used).copy_(buffer.narrow(0, 0, used));
    }
    buffer = std::move(grown);
  }
  buffer.narrow(0, used, rows.size(0)).copy_(rows);
  return buffer.narrow(0, 0, needed);
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::vector<std::int64_t>& kv_index, const AttentionRows& rows) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const ops::Sequences& sequences = rows.sequences;
  if (rows.cache == nullptr) {
    return ops::causal_attention(q, k, v, kv_index, scale, sequences);
  }
  LayerState& cache = *rows.cache;
  HYDRA_CHECK(static_cast<std::int64_t>(cache.k.size()) == sequences.count(), cache.k.size(), " cached sequences for ",
              sequences.count());
  std::vector<at::Tensor> outputs(cache.k.size());
  const auto attend_one = [&](std::int64_t s) {
    const std::int64_t begin = sequences.offsets[s];
    const std::int64_t length = sequences.length(s);
    const at::Tensor keys = append(cache.k[s], sequences.start[s], k.narrow(0, begin, length));
    const at::Tensor values = append(cache.v[s], sequences.start[s], v.narrow(0, begin, length));
    const at::Tensor queries = rows.wanted.defined() ? q.narrow(0, s, 1) : q.narrow(0, begin, length);
    outputs[s] = ops::cached_attention(queries, keys, values, kv_index, scale);
  };
  // On a CPU a thread a sequence, if there are enough: no thread waits for another within one.
  const std::int64_t apart = q.is_cpu() ? sequences.count() / at::get_num_threads() * at::get_num_threads() : 0;
  at::parallel_for(0, apart, 1, [&](std::int64_t first, std::int64_t last) {
    const c10::NoGradGuard no_grad;  // of this thread
    for (std::int64_t s = first; s < last; ++s) {
      attend_one(s);
    }
  });
  for (std::int64_t s = apart; s < sequences.count(); ++s) {
    attend_one(s);
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs);
}

}  // namespace hydra::model
