// Cross-entropy and KL divergence of rows of logits and their gradient, in two passes over a row: one block a row reads
// it once for the online softmax statistics (maximum and scaled sum) of student and teacher and once more to write the
// gradient (method.md section 6). With a = z_t / tau, b = z / tau and Z = log sum exp:
//   KL = sum_j softmax(a)_j (a_j - b_j) - (Z(a) - Z(b)),   CE = Z(z) - z_label
// which is exactly 0 for equal logits, because both sides run the same operations in the same order. Sums are reduced
// in a fixed order, so the results are deterministic.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/distill_loss/launch.h"
#include "kernels/element.cuh"

namespace hydra::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// sum exp(x) = sum * exp(max).
struct Softmax {
  float max = -INFINITY;
  float sum = 0.0F;

  // Factor for sums that were scaled by the old maximum.
  __device__ float raise(float candidate) {
    if (candidate <= max) {
      return 1.0F;
    }
    const float factor = __expf(max - candidate);  // 0 for the first finite value
    max = candidate;
    sum *= factor;
    return factor;
  }
  __device__ float log_sum() const { return max + __logf(sum); }
};

// Statistics of one row, or of a thread's part of it.
struct RowStatistics {
  Softmax student;          // of z
  Softmax tempered;         // of z / tau; unused when tau is 1
  Softmax teacher;          // of z_t / tau
  float difference = 0.0F;  // sum exp(a - teacher.max) (a - b)
};

__device__ void merge(Softmax& a, const Softmax& b) {
  if (b.max == -INFINITY) {
    return;
  }
  a.raise(b.max);
  a.sum += b.sum * __expf(b.max - a.max);
}

__device__ void merge(RowStatistics& a, const RowStatistics& b) {
  merge(a.student, b.student);
  merge(a.tempered, b.tempered);
  if (b.teacher.max != -INFINITY) {
    a.difference *= a.teacher.raise(b.teacher.max);
    const float factor = __expf(b.teacher.max - a.teacher.max);
    a.teacher.sum += b.teacher.sum * factor;
    a.difference += b.difference * factor;
  }
}

__device__ Softmax shuffled(const Softmax& x, int offset) {
  return {__shfl_down_sync(0xffffffffU, x.max, offset), __shfl_down_sync(0xffffffffU, x.sum, offset)};
}

__device__ void reduce_warp(RowStatistics& x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    RowStatistics other;
    other.student = shuffled(x.student, offset);
    other.tempered = shuffled(x.tempered, offset);
    other.teacher = shuffled(x.teacher, offset);
    other.difference = __shfl_down_sync(0xffffffffU, x.difference, offset);
    merge(x, other);
  }
}

// The block's total, in every thread.
__device__ RowStatistics reduce_block(RowStatistics x) {
  __shared__ RowStatistics partial[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  reduce_warp(x);
  if (lane == 0) {
    partial[warp] = x;
  }
  __syncthreads();
  if (warp == 0) {
    RowStatistics total;
    if (lane < kWarps) {
      total = partial[lane];
    }
    reduce_warp(total);
    if (lane == 0) {
      partial[0] = total;
    }
  }
  __syncthreads();
  return partial[0];
}

template <int kWidth>
__device__ void accumulate(Softmax& s, const float (&x)[kWidth]) {
  float top = x[0];
  for (int i = 1; i < kWidth; ++i) {
    top = fmaxf(top, x[i]);
  }
  s.raise(top);
  if (s.max == -INFINITY) {
    return;
  }
  for (int i = 0; i < kWidth; ++i) {
    s.sum += __expf(x[i] - s.max);
  }
}

// The teacher's softmax and the sum of probability times difference; a masked column (-inf) counts nothing.
template <int kWidth>
__device__ void accumulate_teacher(RowStatistics& s, const float (&a)[kWidth], const float (&b)[kWidth]) {
  float top = a[0];
  for (int i = 1; i < kWidth; ++i) {
    top = fmaxf(top, a[i]);
  }
  s.difference *= s.teacher.raise(top);
  if (s.teacher.max == -INFINITY) {
    return;
  }
  for (int i = 0; i < kWidth; ++i) {
    const float e = __expf(a[i] - s.teacher.max);
    s.teacher.sum += e;
    s.difference += e > 0.0F ? e * (a[i] - b[i]) : 0.0F;
  }
}

template <class Logit, class Gradient, int kWidth>
__global__ void __launch_bounds__(kThreads) kl_ce_kernel(const KlCeParams p) {
  using Logits = Pack<Logit, kWidth>;
  using Gradients = Pack<Gradient, kWidth>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t begin = row * p.columns;
  const std::int64_t packs = p.columns / kWidth;
  const auto* student = reinterpret_cast<const Logits*>(static_cast<const Logit*>(p.student) + begin);
  const auto* teacher =
      p.teacher == nullptr ? nullptr : reinterpret_cast<const Logits*>(static_cast<const Logit*>(p.teacher) + begin);
  const bool tempered = teacher != nullptr && p.temperature != 1.0F;
  const float inverse_tau = 1.0F / p.temperature;
  // The label's logit is read before the gradient may overwrite it. A label out of range makes the row's loss NaN.
  const std::int64_t label = p.labels[row];
  const bool valid = label >= 0 && label < p.columns;
  const float label_logit = valid ? to_float(static_cast<const Logit*>(p.student)[begin + label]) : NAN;

  RowStatistics mine;
  for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const Logits z = student[i];
    float x[kWidth];
    for (int j = 0; j < kWidth; ++j) {
      x[j] = to_float(z.value[j]);
    }
    accumulate(mine.student, x);
    if (teacher != nullptr) {
      const Logits zt = teacher[i];
      float a[kWidth];
      for (int j = 0; j < kWidth; ++j) {
        a[j] = to_float(zt.value[j]) * inverse_tau;
        x[j] *= inverse_tau;
      }
      if (tempered) {
        accumulate(mine.tempered, x);
      }
      accumulate_teacher(mine, a, x);
    }
  }
  const RowStatistics total = reduce_block(mine);
  const float student_lse = total.student.log_sum();
  const float tempered_lse = tempered ? total.tempered.log_sum() : student_lse;
  const float teacher_lse = teacher != nullptr ? total.teacher.log_sum() : 0.0F;
  if (threadIdx.x == 0) {
    p.ce[row] = student_lse - label_logit;
    if (teacher != nullptr) {
      const float kl = total.difference / total.teacher.sum - (teacher_lse - tempered_lse);
      p.kl[row] = kl * p.temperature * p.temperature;
    }
  }
  if (p.gradient == nullptr) {
    return;
  }

  auto* gradient = reinterpret_cast<Gradients*>(static_cast<Gradient*>(p.gradient) + begin);
  for (std::int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const Logits z = student[i];
    Logits zt{};
    if (teacher != nullptr) {
      zt = teacher[i];
    }
    Gradients g;
    for (int j = 0; j < kWidth; ++j) {
      const float x = to_float(z.value[j]);
      const float probability = __expf(x - student_lse);
      float value = p.ce_scale * probability;
      if (teacher != nullptr) {
        const float soft = tempered ? __expf(x * inverse_tau - tempered_lse) : probability;
        value += p.kl_scale * (soft - __expf(to_float(zt.value[j]) * inverse_tau - teacher_lse));
      }
      if (i * kWidth + j == label) {
        value -= p.ce_scale;
      }
      g.value[j] = from_float<Gradient>(value);
    }
    gradient[i] = g;
  }
}

template <class Logit, class Gradient>
cudaError_t launch(const KlCeParams& p, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(p.rows);
  // Rows stay aligned to a pack of 4 when the row length is a multiple of 4 (allocations are aligned to 256 bytes).
  if (p.columns % 4 == 0) {
    kl_ce_kernel<Logit, Gradient, 4><<<grid, kThreads, 0, stream>>>(p);
  } else {
    kl_ce_kernel<Logit, Gradient, 1><<<grid, kThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_kl_ce(const KlCeParams& p, cudaStream_t stream) {
  if (p.rows == 0) {
    return cudaSuccess;
  }
  if (p.logits == Element::bf16) {
    return p.gradients == Element::bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(p, stream) : cudaErrorInvalidValue;
  }
  return p.gradients == Element::bf16 ? launch<float, __nv_bfloat16>(p, stream) : launch<float, float>(p, stream);
}

}  // namespace hydra::kernels
