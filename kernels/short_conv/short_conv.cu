// A thread walks down a strip of rows with the last rows of kWidth channels in registers, so that each row is read once
// but for the three rows before a strip. Strips are as long as a full device allows. Backward, with du = dy silu'(u):
//   dx_t = sum_j w_j du_{t+3-j} within the sequence,   dw_j = sum_t du_t x_{t-3+j}
// so dx follows three rows behind du; the taps' gradients are summed per strip, then over strips by a second launch.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/column_sum/launch.h"
#include "kernels/element.cuh"
#include "kernels/short_conv/launch.h"

namespace hydra::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kTail = kConvTaps - 1;
template <class T>
constexpr int kRows = 8 / sizeof(T);  // loaded together: 4 of bf16, 2 of fp32

struct Strips {
  std::int64_t rows;  // of a strip
  std::int64_t count;
  std::int64_t blocks_wide;  // blocks over the channels
};

Strips strips_of(const ShortConv& in, int width, int resident) {
  const std::int64_t packs = in.channels / width;
  const std::int64_t threads = std::int64_t{resident} * multiprocessors() * kThreads;
  Strips strips;
  strips.blocks_wide = ceil_div(packs, kThreads);
  const std::int64_t most = std::max<std::int64_t>(1, threads / (strips.blocks_wide * kThreads));
  strips.rows = ceil_div(in.rows, most);
  strips.count = ceil_div(in.rows, strips.rows);
  return strips;
}

// This thread's channels and strip.
struct Place {
  std::int64_t channel, strip;
  int begin, end;  // rows

  __device__ Place(const ShortConv& in, const Strips& strips, int width) {
    const std::int64_t block = blockIdx.x;
    strip = block / strips.blocks_wide;
    channel = ((block % strips.blocks_wide) * kThreads + threadIdx.x) * width;
    begin = static_cast<int>(strip * strips.rows);
    end = static_cast<int>(min(begin + strips.rows, in.rows));
  }
};

// The sequence that holds a row.
__device__ int sequence_of(const ShortConv& in, int row) {
  int low = 0, high = in.sequences;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (in.offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int kWidth>
__device__ void load_taps(const ShortConv& in, std::int64_t channel, float (&w)[kConvTaps][kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
#pragma unroll
    for (int tap = 0; tap < kConvTaps; ++tap) {
      w[tap][i] = parameter_value(in.weight, (channel + i) * kConvTaps + tap);
    }
  }
}

template <class T, int kWidth>
__device__ void widen(const Pack<T, kWidth>& pack, float (&x)[kWidth]) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    x[j] = to_float(pack.value[j]);
  }
}

template <class T, int kWidth>
__device__ Pack<T, kWidth> load_row(const T* row) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(row);
}

template <class T, int kWidth>
__device__ void store_row(T* row, const float (&x)[kWidth]) {
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    pack.value[i] = from_float<T>(x[i]);
  }
  *reinterpret_cast<Pack<T, kWidth>*>(row) = pack;
}

// The three rows before `row` of sequence s, which begins at `first`: its own, then its history's, or zeros.
template <class T, int kWidth>
__device__ void load_window(const ShortConv& in, int s, int first, int row, std::int64_t channel,
                            float (&window)[kTail][kWidth]) {
#pragma unroll
  for (int i = 0; i < kTail; ++i) {
    const int t = row - kTail + i;
    if (t >= first) {
      widen(load_row<T, kWidth>(static_cast<const T*>(in.x) + t * in.row_stride + channel), window[i]);
      continue;
    }
    const auto* history = static_cast<const T*>(in.history);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const std::int64_t at = (std::int64_t{s} * in.channels + channel + j) * kTail + (t - first + kTail);
      window[i][j] = history == nullptr ? 0.0F : to_float(history[at]);
    }
  }
}

template <int kWidth>
__device__ void shift(float (&window)[kTail][kWidth], const float (&next)[kWidth]) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    window[0][j] = window[1][j];
    window[1][j] = window[2][j];
    window[2][j] = next[j];
  }
}

template <int kWidth>
__device__ float convolved(const float (&w)[kConvTaps][kWidth], const float (&window)[kTail][kWidth],
                           const float (&x)[kWidth], int j) {
  return w[3][j] * x[j] + w[2][j] * window[2][j] + w[1][j] * window[1][j] + w[0][j] * window[0][j];
}

constexpr int kForwardResident = 8;
constexpr int kBackwardResident = 4;

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, kForwardResident)
    short_conv_kernel(const __grid_constant__ ShortConvForward p, const Strips strips) {
  const ShortConv& in = p.in;
  const Place place(in, strips, kWidth);
  if (place.channel >= in.channels) {
    return;
  }
  float w[kConvTaps][kWidth];
  load_taps(in, place.channel, w);
  const T* x = static_cast<const T*>(in.x) + place.channel;
  T* y = static_cast<T*>(p.y) + place.channel;
  x += place.begin * in.row_stride;
  y += place.begin * in.channels;
  int s = sequence_of(in, place.begin);
  for (int begin = place.begin; begin < place.end; ++s) {
    const int first = in.offsets[s], last = in.offsets[s + 1];
    const int end = min(last, place.end);
    float window[kTail][kWidth];
    load_window<T, kWidth>(in, s, first, begin, place.channel, window);
    const auto step = [&](const Pack<T, kWidth>& pack) {
      float next[kWidth], u[kWidth];
      widen(pack, next);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        u[j] = convolved(w, window, next, j);
        u[j] = in.silu ? u[j] * fast_sigmoid(u[j]) : u[j];
      }
      store_row<T, kWidth>(y, u);
      shift(window, next);
      y += in.channels;
    };
    int row = begin;
    for (; row + kRows<T> <= end; row += kRows<T>) {
      Pack<T, kWidth> next[kRows<T>];
#pragma unroll
      for (Pack<T, kWidth>& pack : next) {
        pack = load_row<T, kWidth>(x);
        x += in.row_stride;
      }
#pragma unroll
      for (const Pack<T, kWidth>& pack : next) {
        step(pack);
      }
    }
    for (; row < end; ++row, x += in.row_stride) {
      step(load_row<T, kWidth>(x));
    }
    if (end == last && p.new_history != nullptr) {
      T* history = static_cast<T*>(p.new_history) + (std::int64_t{s} * in.channels + place.channel) * kTail;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
#pragma unroll
        for (int i = 0; i < kTail; ++i) {
          history[j * kTail + i] = from_float<T>(window[i][j]);
        }
      }
    }
    begin = end;
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, kBackwardResident)
    short_conv_backward_kernel(const __grid_constant__ ShortConvBackward p, const Strips strips) {
  const ShortConv& in = p.in;
  const Place place(in, strips, kWidth);
  if (place.channel >= in.channels) {
    return;
  }
  float w[kConvTaps][kWidth], dw[kConvTaps][kWidth];
  load_taps(in, place.channel, w);
#pragma unroll
  for (int tap = 0; tap < kConvTaps; ++tap) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      dw[tap][j] = 0.0F;
    }
  }
  const T* x = static_cast<const T*>(in.x) + place.channel;
  const T* dy = static_cast<const T*>(p.d_y) + place.channel;
  T* dx = static_cast<T*>(p.d_x) + place.channel;
  x += place.begin * in.row_stride;
  dy += place.begin * in.channels;
  dx += place.begin * in.channels;
  int s = sequence_of(in, place.begin);
  for (int begin = place.begin; begin < place.end; ++s) {
    const int first = in.offsets[s], last = in.offsets[s + 1];
    const int end = min(last, place.end);                  // rows [begin, end) of dx and dw
    const int readable = min(last, end + kTail);           // du is 0 past the sequence
    float window[kTail][kWidth], d_window[kTail][kWidth];  // x and du of the rows before
    load_window<T, kWidth>(in, s, first, begin, place.channel, window);
#pragma unroll
    for (int i = 0; i < kTail; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        d_window[i][j] = 0.0F;
      }
    }
    // Row t; `counts`: it is in [begin, end); `writes`: so is t - 3, whose du are the window's and du_t.
    const auto step = [&](const Pack<T, kWidth>& pack, const Pack<T, kWidth>& d_pack, bool counts, bool writes) {
      float next[kWidth], du[kWidth], out[kWidth];
      widen(pack, next);
      widen(d_pack, du);
      if (in.silu) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const float u = convolved(w, window, next, j);
          const float a = fast_sigmoid(u);
          du[j] *= a + u * a * (1.0F - a);
        }
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        if (counts) {
          dw[0][j] += du[j] * window[0][j];
          dw[1][j] += du[j] * window[1][j];
          dw[2][j] += du[j] * window[2][j];
          dw[3][j] += du[j] * next[j];
        }
        out[j] = w[3][j] * d_window[0][j] + w[2][j] * d_window[1][j] + w[1][j] * d_window[2][j] + w[0][j] * du[j];
      }
      if (writes) {
        store_row<T, kWidth>(dx, out);
        dx += in.channels;
      }
      shift(window, next);
      shift(d_window, du);
    };
    const auto single = [&](int t) {
      Pack<T, kWidth> pack = {}, d_pack = {};
      if (t < readable) {
        pack = load_row<T, kWidth>(x + (t - begin) * in.row_stride);
        d_pack = load_row<T, kWidth>(dy + (t - begin) * in.channels);
      }
      step(pack, d_pack, t < end, t - kTail >= begin && t - kTail < end);
    };
    int row = begin;
    for (; row < begin + kTail; ++row) {
      single(row);
    }
    Pack<T, kWidth> next[kRows<T>] = {}, d_next[kRows<T>] = {};  // on their way while the rows before are worked on
    const auto load = [&](int t) {
      const T* x_row = x + (t - begin) * in.row_stride;
      const T* dy_row = dy + (t - begin) * in.channels;
#pragma unroll
      for (int i = 0; i < kRows<T>; ++i) {
        next[i] = load_row<T, kWidth>(x_row);
        d_next[i] = load_row<T, kWidth>(dy_row);
        x_row += in.row_stride;
        dy_row += in.channels;
      }
    };
    if (row + kRows<T> <= end) {
      load(row);
    }
    for (; row + kRows<T> <= end; row += kRows<T>) {
      Pack<T, kWidth> now[kRows<T>], d_now[kRows<T>];
#pragma unroll
      for (int i = 0; i < kRows<T>; ++i) {
        now[i] = next[i];
        d_now[i] = d_next[i];
      }
      if (row + 2 * kRows<T> <= end) {
        load(row + kRows<T>);
      }
#pragma unroll
      for (int i = 0; i < kRows<T>; ++i) {
        step(now[i], d_now[i], true, true);
      }
    }
    for (; row < end + kTail; ++row) {
      single(row);
    }
    x += (end - begin) * in.row_stride;
    dy += (end - begin) * in.channels;
    begin = end;
  }
  if (p.d_weight != nullptr) {
    float* partial = static_cast<float*>(p.scratch) + (place.strip * in.channels + place.channel) * kConvTaps;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
#pragma unroll
      for (int tap = 0; tap < kConvTaps; ++tap) {
        partial[j * kConvTaps + tap] = dw[tap][j];
      }
    }
  }
}

// Channels a thread: 4 where rows and addresses allow whole packs, else 1.
int width_of(const ShortConv& in, std::initializer_list<const void*> arrays) {
  const std::uintptr_t bytes = 4 * (in.element == Element::fp32 ? 4 : 2);
  bool whole = in.channels % 4 == 0 && in.row_stride % 4 == 0;
  for (const void* array : arrays) {
    whole = whole && reinterpret_cast<std::uintptr_t>(array) % bytes == 0;
  }
  return whole ? 4 : 1;
}

unsigned grid_of(const Strips& strips) { return static_cast<unsigned>(strips.count * strips.blocks_wide); }

template <class T, int kWidth>
cudaError_t forward(const ShortConvForward& p, cudaStream_t stream) {
  const Strips strips = strips_of(p.in, kWidth, kForwardResident);
  short_conv_kernel<T, kWidth><<<grid_of(strips), kThreads, 0, stream>>>(p, strips);
  return cudaGetLastError();
}

template <class T, int kWidth>
cudaError_t backward(const ShortConvBackward& p, cudaStream_t stream) {
  const Strips strips = strips_of(p.in, kWidth, kBackwardResident);
  short_conv_backward_kernel<T, kWidth><<<grid_of(strips), kThreads, 0, stream>>>(p, strips);
  ColumnSums sums;
  sums.add({static_cast<const float*>(p.scratch), strips.count, p.in.channels * kConvTaps, p.d_weight});
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? launch_column_sums(sums, stream) : status;
}

}  // namespace

std::size_t short_conv_backward_scratch(const ShortConv& in) {
  std::int64_t most = strips_of(in, 1, kBackwardResident).count;
  if (in.channels % 4 == 0) {
    most = std::max(most, strips_of(in, 4, kBackwardResident).count);
  }
  return sizeof(float) * static_cast<std::size_t>(most * in.channels * kConvTaps);
}

cudaError_t launch_short_conv_forward(const ShortConvForward& p, cudaStream_t stream) {
  if (p.in.rows == 0) {
    return cudaSuccess;
  }
  const bool wide = width_of(p.in, {p.in.x, p.y}) == 4;
  if (p.in.element == Element::bf16) {
    return wide ? forward<__nv_bfloat16, 4>(p, stream) : forward<__nv_bfloat16, 1>(p, stream);
  }
  return wide ? forward<float, 4>(p, stream) : forward<float, 1>(p, stream);
}

cudaError_t launch_short_conv_backward(const ShortConvBackward& p, cudaStream_t stream) {
  if (p.in.rows == 0) {
    return cudaErrorInvalidValue;  // the taps' gradient would stay unset
  }
  const bool wide = width_of(p.in, {p.in.x, p.d_y, p.d_x}) == 4;
  if (p.in.element == Element::bf16) {
    return wide ? backward<__nv_bfloat16, 4>(p, stream) : backward<__nv_bfloat16, 1>(p, stream);
  }
  return wide ? backward<float, 4>(p, stream) : backward<float, 1>(p, stream);
}

}  // namespace hydra::kernels
