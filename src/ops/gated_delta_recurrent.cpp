// The gated delta rule row by row (method.md 4.2), over all sequences that still have a row at step t. It serves as the
// reference of the chunked form and as the step of decoding.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "gated_delta_blocks.hpp"
#include "hydrahead/ops/gated_delta.hpp"
#include "index_tensor.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

at::Tensor per_head(const at::Tensor& x, at::ScalarType type, std::int64_t heads) {
  const auto wide = x.to(type);
  return x.size(1) == heads ? wide : wide.repeat_interleave(heads / x.size(1), 1);
}

}  // namespace

GatedDeltaOutput gated_delta_recurrent(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                                       const at::Tensor& g_in, const at::Tensor& beta_in, double scale,
                                       const Sequences& sequences, const at::Tensor& initial_state) {
  check_gated_delta(q_in, k_in, v_in, g_in, beta_in, sequences, initial_state);
  const auto type = statistics_type(q_in);
  const auto count = sequences.count();
  const auto heads = v_in.size(1);
  // Sequences by length, longest first: those with a row at step t are a prefix.
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return sequences.length(a) > sequences.length(b); });
  std::vector<std::int64_t> rows, active(static_cast<std::size_t>(sequences.max_length), 0);
  for (std::int64_t t = 0; t < sequences.max_length; ++t) {
    for (const auto s : order) {
      if (t < sequences.length(s)) {
        rows.push_back(sequences.offsets[s] + t);
        ++active[static_cast<std::size_t>(t)];
      }
    }
  }
  const auto device = q_in.device();
  const auto row_index = index_tensor(rows, device);
  const auto q = per_head(q_in, type, heads).index_select(0, row_index) * scale;
  const auto k = per_head(k_in, type, heads).index_select(0, row_index);
  const auto v = v_in.to(type).index_select(0, row_index);
  const auto decay = g_in.to(type).index_select(0, row_index).exp().unsqueeze(-1).unsqueeze(-1);
  const auto beta = beta_in.to(type).index_select(0, row_index).unsqueeze(-1);

  const auto order_index = index_tensor(order, device);
  auto state = initial_state.defined() ? initial_state.to(type).index_select(0, order_index)
                                       : at::zeros({count, heads, v.size(2), q.size(2)}, v.options());
  std::vector<at::Tensor> outputs, finished;
  std::int64_t begin = 0;
  for (const auto n : active) {
    if (n < state.size(0)) {
      finished.insert(finished.begin(), state.narrow(0, n, state.size(0) - n));
      state = state.narrow(0, 0, n);
    }
    const auto step = [&](const at::Tensor& x) { return x.narrow(0, begin, n); };
    const auto k_t = step(k).unsqueeze(-2);  // [n, H, 1, K]
    state = state * step(decay);
    const auto u = step(beta) * (step(v) - (state * k_t).sum(-1));  // [n, H, V]
    state = state + u.unsqueeze(-1) * k_t;
    outputs.push_back((state * step(q).unsqueeze(-2)).sum(-1));
    begin += n;
  }
  finished.insert(finished.begin(), state);
  const auto output = at::empty(v.sizes(), v.options()).index_copy(0, row_index, at::cat(outputs));
  const auto final_state = at::cat(finished);
  return {output.to(q_in.scalar_type()), at::empty_like(final_state).index_copy(0, order_index, final_state)};
}

}  // namespace hydra::ops
