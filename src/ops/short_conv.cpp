// Depthwise causal convolution over 4 rows, restarted at every sequence (method.md 4.2). In ATen operations the three
// rows before each sequence (history or zeros) are put in front of it, and each tap is a gather of the padded rows.
#include "short_conv.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/base/error.hpp"
#include "index_tensor.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

constexpr std::int64_t kTaps = 4;
constexpr std::int64_t kTail = kTaps - 1;

}  // namespace

ShortConvOutput short_conv_aten(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                                const at::Tensor& history, bool silu) {
  const auto n = x.size(0);
  const auto channels = x.size(1);
  const auto count = sequences.count();
  // Rows of the padded array: [tail of sequence 0, sequence 0, tail of sequence 1, ...].
  const auto tails = history.defined() ? history.to(x.scalar_type()).transpose(1, 2).reshape({count * kTail, channels})
                                       : at::zeros({count * kTail, channels}, x.options());
  const auto source = at::cat({tails, x});  // tails first, then the rows
  std::vector<std::int64_t> order, first(static_cast<std::size_t>(n)), last;
  order.reserve(static_cast<std::size_t>(n + count * kTail));
  for (std::int64_t s = 0; s < count; ++s) {
    for (std::int64_t i = 0; i < kTail; ++i) {
      order.push_back(s * kTail + i);
    }
    for (std::int64_t row = sequences.offsets[s]; row < sequences.offsets[s + 1]; ++row) {
      first[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(order.size()) - kTail;
      order.push_back(count * kTail + row);
    }
    for (std::int64_t i = kTail; i > 0; --i) {
      last.push_back(static_cast<std::int64_t>(order.size()) - i);
    }
  }
  const auto padded = source.index_select(0, index_tensor(order, x.device()));
  const auto base = index_tensor(first, x.device());
  const auto w = weight.to(x.scalar_type());
  auto y = padded.index_select(0, base + kTail) * w.select(1, kTail);
  for (std::int64_t tap = 0; tap < kTail; ++tap) {
    y = y + padded.index_select(0, base + tap) * w.select(1, tap);
  }
  const auto tail = padded.index_select(0, index_tensor(last, x.device()));
  return {silu ? at::silu(y) : y, tail.view({count, kTail, channels}).transpose(1, 2).contiguous()};
}

ShortConvOutput short_conv(const at::Tensor& x, const at::Tensor& weight, const Sequences& sequences,
                           const at::Tensor& history, bool silu) {
  HYDRA_CHECK(
      x.size(0) == sequences.rows() && weight.dim() == 2 && weight.size(0) == x.size(1) && weight.size(1) == kTaps,
      "short_conv: x ", x.sizes(), ", weight ", weight.sizes(), ", ", sequences.rows(), " rows");
  HYDRA_CHECK(!history.defined() || history.sizes() == at::IntArrayRef({sequences.count(), x.size(1), kTail}),
              "short_conv: history ", history.sizes());
#if HYDRA_CUDA
  const bool through_history = history.defined() && history.requires_grad() && at::GradMode::is_enabled();
  if (has_kernels(x) && x.size(0) > 0 && !through_history) {
    return short_conv_cuda(x, weight, sequences, history, silu);
  }
#endif
  return short_conv_aten(x, weight, sequences, history, silu);
}

}  // namespace hydra::ops
