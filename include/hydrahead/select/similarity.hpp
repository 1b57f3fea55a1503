#pragma once
// How alike outputs are, pairwise over N tokens: linear CKA, which no rotation or scaling of either side changes, and
// the mean cosine of vectors of one space. And the Gini coefficient of importance.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hydra::select {

// groups: [N, F, d] each, F outputs of d features. With X and Y centred over tokens,
//   CKA = |X^T Y|^2 / (|X^T X| |Y^T Y|)   (Frobenius norms),
// a matrix over the outputs of all groups in order, fp64 on the CPU; NaN where an output does not vary.
at::Tensor linear_cka(const std::vector<at::Tensor>& groups);

// vectors(begin, end): [end - begin, A, D], the vectors of A outputs at tokens begin to end. Mean over N tokens of the
// cosine of every pair [A, A], fp64 on the CPU; a zero vector has the cosine 0 with all.
at::Tensor mean_cosine(std::int64_t tokens, std::int64_t block,
                       const std::function<at::Tensor(std::int64_t begin, std::int64_t end)>& vectors);

// sum_ij |x_i - x_j| / (2 n sum x) of values >= 0: 0 for equal values, 1 - 1/n where one holds everything; NaN if all
// are zero.
double gini(std::span<const double> values);

}  // namespace hydra::select
