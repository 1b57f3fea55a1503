#include "hydrahead/select/similarity.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace hydra::select {

at::Tensor linear_cka(const std::vector<at::Tensor>& groups) {
  std::vector<at::Tensor> centred;  // [N, F d]
  for (const at::Tensor& group : groups) {
    const at::Tensor x = group.to(at::promote_types(group.scalar_type(), at::kFloat));
    centred.push_back((x - x.mean(0, true)).flatten(1));
  }
  // |X^T Y|^2 of every pair of outputs, a pair of groups at a time.
  const auto products = [&](std::size_t i, std::size_t j) {
    const std::int64_t fi = groups[i].size(1), fj = groups[j].size(1);
    return at::matmul(centred[i].t(), centred[j])
        .view({fi, groups[i].size(2), fj, groups[j].size(2)})
        .square()
        .sum(at::IntArrayRef{1, 3}, false, at::kDouble)
        .to(at::kCPU);
  };
  std::vector<std::vector<at::Tensor>> blocks(groups.size(), std::vector<at::Tensor>(groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i; j < groups.size(); ++j) {
      blocks[i][j] = products(i, j);
      blocks[j][i] = blocks[i][j].t();
    }
  }
  std::vector<at::Tensor> rows;
  for (const auto& row : blocks) {
    rows.push_back(at::cat(row, 1));
  }
  const at::Tensor all = at::cat(rows);
  const at::Tensor norm = all.diagonal().sqrt();
  return all / at::outer(norm, norm);
}

at::Tensor mean_cosine(std::int64_t tokens, std::int64_t block,
                       const std::function<at::Tensor(std::int64_t begin, std::int64_t end)>& vectors) {
  at::Tensor sum;
  for (std::int64_t begin = 0; begin < tokens; begin += block) {
    const at::Tensor x = vectors(begin, std::min(begin + block, tokens));
    const at::Tensor unit = x / x.norm(2, -1, true).clamp_min(std::numeric_limits<float>::min());
    const at::Tensor part = at::matmul(unit, unit.transpose(1, 2)).sum(0, false, at::kDouble);
    sum = sum.defined() ? sum + part : part;
  }
  return (sum / static_cast<double>(tokens)).to(at::kCPU);
}

double gini(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  double total = 0, weighted = 0;  // sum_ij |x_i - x_j| = 2 sum_i (2 i - n + 1) x_(i)
  const auto n = static_cast<double>(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    total += sorted[i];
    weighted += (2 * static_cast<double>(i) - n + 1) * sorted[i];
  }
  return total > 0 ? weighted / (n * total) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace hydra::select
