// Eq. 9: how much the rows that predict the answer prefer it to the distractor.

#include <ATen/ATen.h>

#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/patching.hpp"

namespace hydra::select {
namespace {

constexpr std::int64_t rows_of_logits = 2048;  // formed at a time for probabilities

at::Tensor ids_tensor(const std::vector<std::int32_t>& ids, const at::Device& device) {
  return at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong).to(device);
}

// [N, D] normed rows, token of each row -> probability of the token and of the other one, subtracted.
at::Tensor probability_gap(const model::Model& teacher, const at::Tensor& normed, const at::Tensor& plus,
                           const at::Tensor& minus) {
  std::vector<at::Tensor> gaps;
  for (std::int64_t begin = 0; begin < normed.size(0); begin += rows_of_logits) {
    const std::int64_t end = std::min(begin + rows_of_logits, normed.size(0));
    const at::Tensor p = at::softmax(model::logits_of(teacher, normed.slice(0, begin, end)), -1);
    const auto of = [&](const at::Tensor& token) { return p.gather(1, token.slice(0, begin, end).unsqueeze(1)); };
    gaps.push_back((of(plus) - of(minus)).squeeze(1));
  }
  return at::cat(gaps);
}

}  // namespace

Readout make_readout(const data::CounterfactualPair& pair, double decay, Metric metric, const at::Device& device) {
  HYDRA_CHECK(
      !pair.rows.empty() && pair.rows.size() == pair.answer.size() && pair.rows.size() == pair.distractor.size(),
      pair.id, ": a readout of no rows, or without a token for each");
  const std::int64_t first =
      static_cast<std::int64_t>(pair.clean.size()) - pair.answer_size;  // predicts its first token
  HYDRA_CHECK(pair.rows.front() >= first && pair.rows.back() < first + pair.answer_size, pair.id,
              ": rows outside of the answer of ", pair.answer_size, " tokens");
  double sum = 0;
  for (std::int64_t j = 0; j < pair.answer_size; ++j) {
    sum += std::pow(decay, static_cast<double>(j));
  }
  std::vector<double> weights;
  for (const std::int64_t row : pair.rows) {
    weights.push_back(std::pow(decay, static_cast<double>(row - first)));
  }
  return {.rows = at::tensor(pair.rows, at::kLong).to(device),
          .answer = ids_tensor(pair.answer, device),
          .distractor = ids_tensor(pair.distractor, device),
          .weights = at::tensor(weights, at::kDouble).div_(sum).to(device),
          .metric = metric};
}

at::Tensor margin(const model::Model& teacher, const Readout& readout, const at::Tensor& hidden) {
  const at::Tensor normed = ops::rms_norm(hidden, teacher.norm, teacher.config.base.rms_norm_eps);
  at::Tensor gap;  // [..., A]
  if (readout.metric == Metric::prob) {
    const std::int64_t cases = normed.numel() / (readout.rows.size(0) * normed.size(-1));
    gap = probability_gap(teacher, normed.flatten(0, -2), readout.answer.repeat({cases}),
                          readout.distractor.repeat({cases}))
              .view(normed.sizes().slice(0, normed.dim() - 1));
  } else {
    // Only two columns of the head matter to a row.
    const at::ScalarType type = normed.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor direction = teacher.head.index_select(0, readout.answer).to(type) -
                                 teacher.head.index_select(0, readout.distractor).to(type);
    gap = (normed.to(type) * direction).sum(-1);
  }
  return (gap.to(at::kDouble) * readout.weights).sum(-1);
}

}  // namespace hydra::select
