// kernels.md section 1. Everything inside a chunk is batched over all chunks of the block; only the two scans over
// steps are sequential, 5 products and updates a step. Gate factors are always exp of a non-positive difference.
// Two products of the section are arranged so that no division by beta is left: with XU = dX U^T,
//   dbeta_i = dX_i.W_i - sum_j (N * XU)_ij   (E = W - N U),     dN * (K K^T) = -beta_i (N * XU).
#include "gated_delta_chunked.hpp"

#include <ATen/ATen.h>

#include <limits>

#include "triangular_inverse.hpp"

namespace hydra::ops {
namespace {

at::Tensor transposed(const at::Tensor& x) { return x.transpose(1, 2); }

// Calls body(slice of the block's [chunks H, ...] arrays, number of active states) for each step.
template <class Body>
void for_each_step(const ChunkLayout& layout, const ChunkBlock& block, std::int64_t heads, bool reverse,
                   const Body& body) {
  auto offset = reverse ? block.chunks : 0;
  for (std::int64_t i = 0; i < block.steps; ++i) {
    const auto step = block.first_step + (reverse ? block.steps - 1 - i : i);
    const auto active = layout.active[static_cast<std::size_t>(step)];
    offset -= reverse ? active : 0;
    body(offset * heads, active * heads);
    offset += reverse ? 0 : active;
  }
}

// Gamma [B, C, C] = exp(G_i - G_j) for i >= j, else 0, from the cumulative decay G [B, C, 1].
at::Tensor decay_mask(const at::Tensor& total) {
  const auto n = total.size(1);
  const auto upper = at::full({n, n}, -std::numeric_limits<double>::infinity(), total.options()).triu_(1);
  return (total - transposed(total)).add_(upper).exp_();
}

}  // namespace

BlockForward block_forward(const BlockInput& x, double scale, const ChunkLayout& layout, const ChunkBlock& block,
                           at::Tensor& running) {
  BlockForward f;
  const auto total = x.g.cumsum(1);
  const auto last = total.narrow(1, total.size(1) - 1, 1);
  f.gamma = total.exp();
  f.rest = (last - total).exp_();
  f.decay = last.exp();
  f.mask = decay_mask(total);
  auto kk = at::bmm(x.k, transposed(x.k)).tril_(-1);
  f.inverse = unit_lower_inverse(kk * x.beta).mul_(f.mask);
  f.kk = kk.mul_(f.mask);
  f.p = at::bmm(x.q, transposed(x.k)).mul_(f.mask).mul_(scale);

  const auto k_start = x.k * f.gamma;  // reads the state at the chunk's start
  const auto k_end = x.k * f.rest;     // writes the state at its end
  const auto solve = f.inverse * transposed(x.beta);
  f.w = x.v.clone();
  f.u = at::empty_like(f.w);
  const auto heads = x.q.size(0) / block.chunks;
  f.states = at::empty({x.q.size(0), running.size(1), running.size(2)}, running.options());
  for_each_step(layout, block, heads, /*reverse=*/false, [&](std::int64_t begin, std::int64_t count) {
    auto state = running.narrow(0, 0, count);
    f.states.narrow(0, begin, count).copy_(state);
    auto w = f.w.narrow(0, begin, count);
    auto u = f.u.narrow(0, begin, count);
    w.baddbmm_(k_start.narrow(0, begin, count), transposed(state), 1, -1);
    at::bmm_out(u, solve.narrow(0, begin, count), w);
    state.mul_(f.decay.narrow(0, begin, count)).baddbmm_(transposed(u), k_end.narrow(0, begin, count));
  });
  return f;
}

at::Tensor block_output(const BlockInput& x, const BlockForward& f, double scale) {
  return at::bmm(x.q, transposed(f.states)).mul_(f.gamma * scale).baddbmm_(f.p, f.u);
}

BlockGradient block_backward(const BlockInput& x, const BlockForward& f, const at::Tensor& d_output, double scale,
                             const ChunkLayout& layout, const ChunkBlock& block, at::Tensor& d_running) {
  const auto heads = x.q.size(0) / block.chunks;
  const auto scaled_gamma = f.gamma * scale;
  const auto k_start = x.k * (f.gamma * x.beta);
  const auto k_end = x.k * f.rest;
  // The reverse scan: dU, dX of each chunk and the gradient of the state after it.
  auto du = at::bmm(transposed(f.p), d_output);
  auto dx = at::empty_like(du);
  const auto ds_output = at::bmm(transposed(d_output), x.q * scaled_gamma);
  auto ds_after = at::empty_like(f.states);
  for_each_step(layout, block, heads, /*reverse=*/true, [&](std::int64_t begin, std::int64_t count) {
    auto ds = d_running.narrow(0, 0, count);
    ds_after.narrow(0, begin, count).copy_(ds);
    auto du_step = du.narrow(0, begin, count);
    auto dx_step = dx.narrow(0, begin, count);
    du_step.baddbmm_(k_end.narrow(0, begin, count), transposed(ds));
    at::bmm_out(dx_step, transposed(f.inverse.narrow(0, begin, count)), du_step);
    ds.mul_(f.decay.narrow(0, begin, count)).add_(ds_output.narrow(0, begin, count));
    ds.baddbmm_(transposed(dx_step), k_start.narrow(0, begin, count), 1, -1);
  });

  // Everything else, over all chunks at once.
  BlockGradient d;
  d.v = dx * x.beta;
  auto dp = at::bmm(d_output, transposed(f.u));
  const auto m = (dp * f.mask).mul_(scale);
  auto xu = at::bmm(dx, transposed(f.u));
  const auto solve_sum = (xu * f.kk);  // N * XU
  d.beta = (dx * f.w).sum(2, true).sub_(solve_sum.sum(2, true));
  auto dn = xu.mul_(f.mask).mul_(x.beta).neg_().tril_(-1);

  const auto dq_state = at::bmm(d_output, f.states).mul_(scaled_gamma);
  d.q = at::baddbmm(dq_state, m, x.k);
  const auto dk_before = at::bmm(d.v, f.states).mul_(f.gamma).neg_();
  const auto dk_after = at::bmm(f.u, ds_after).mul_(f.rest);
  d.k = (dk_before + dk_after).baddbmm_(transposed(m), x.q).baddbmm_(dn + transposed(dn), x.k);

  // dG by rows and columns of Z, then the reverse cumulative sum inside the chunk.
  const auto z = dp.mul_(f.p).tril_(-1).sub_(solve_sum * x.beta);
  const auto k_after = (x.k * dk_after).sum(2, true);
  auto dg = z.sum(2, true).sub_(transposed(z.sum(1, true)));
  dg.add_((x.q * dq_state).sum(2, true)).add_((x.k * dk_before).sum(2, true)).sub_(k_after);
  const auto at_end = k_after.sum(1, true).addcmul_(f.decay, (ds_after * f.states).sum({1, 2}, true).view_as(f.decay));
  dg.narrow(1, dg.size(1) - 1, 1).add_(at_end);
  d.g = dg.flip(1).cumsum(1).flip(1);
  return d;
}

}  // namespace hydra::ops
