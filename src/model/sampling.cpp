#include "hydrahead/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "hydrahead/base/error.hpp"

namespace hydra::model {

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  HYDRA_CHECK(!logits.empty() && options.temperature > 0.0);
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::size_t kept = order.size();
  if (options.top_k > 0) {
    kept = std::min(kept, static_cast<std::size_t>(options.top_k));
  }
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  order.resize(kept);

  std::vector<double> weight(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    weight[i] = std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / options.temperature);
  }
  double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  if (options.top_p < 1.0) {
    double sum = 0.0;
    for (std::size_t i = 0; i < kept; ++i) {
      sum += weight[i];
      if (sum >= options.top_p * total) {
        kept = i + 1;
        break;
      }
    }
    total = std::accumulate(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  }
  double target = uniform * total;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    target -= weight[i];
    if (target < 0.0) {
      return order[i];
    }
  }
  return order[kept - 1];
}

}  // namespace hydra::model
