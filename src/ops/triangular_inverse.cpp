// Forward substitution, row by row: A_i = e_i - sum_{j<i} L_ij A_j. It is the stable form whatever the keys are; the
// product of (I + (-L)^(2^k)) is not (equal keys: its terms grow as binomials and cancel). On the CPU 64 x 64 matrices
// are too small for LAPACK's calls, so the loop is here; on CUDA it is one batched triangular solve.
#include "triangular_inverse.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace hydra::ops {
namespace {

template <class T>
void invert(const T* lower, T* inverse, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    T* row = inverse + i * n;
    std::fill(row, row + n, T(0));
    for (std::int64_t j = 0; j < i; ++j) {
      const T factor = lower[i * n + j];
      const T* other = inverse + j * n;
      for (std::int64_t c = 0; c <= j; ++c) {
        row[c] -= factor * other[c];
      }
    }
    row[i] = T(1);
  }
}

}  // namespace

at::Tensor unit_lower_inverse(const at::Tensor& lower) {
  const auto n = lower.size(-1);
  if (!lower.is_cpu()) {
    const auto identity = at::eye(n, lower.options()).expand_as(lower);
    return at::linalg_solve_triangular(lower, identity, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  }
  const auto input = lower.contiguous();
  auto result = at::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "unit_lower_inverse", [&] {
    const auto* from = input.const_data_ptr<scalar_t>();
    auto* to = result.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        invert(from + b * n * n, to + b * n * n, n);
      }
    });
  });
  return result;
}

}  // namespace hydra::ops
