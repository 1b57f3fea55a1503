#include "hydrahead/model/slot_report.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "hydrahead/base/error.hpp"

namespace hydra::model {

SlotReport count_slots(const HeadPlan& plan, const HeadScores& scores) {
  HYDRA_CHECK(plan.layers.size() == scores.layers.size(), "a plan of ", plan.layers.size(), " layers, scores of ",
              scores.layers.size());
  const auto chosen = [&](const LayerHead& head) {
    const auto& heads = plan.layers[head.first].fa_heads;
    return std::binary_search(heads.begin(), heads.end(), head.second);
  };
  SlotReport report;
  const auto won = [&](const HeadScore& winner, const HeadScore& best_other) {
    std::int64_t& count = winner.score != best_other.score               ? report.by_score
                          : winner.effect != best_other.effect           ? report.by_effect
                          : winner.attribution != best_other.attribution ? report.by_attribution
                                                                         : report.by_order;
    ++count;
  };
  const auto score_of = [&](const LayerHead& head) -> const HeadScore& {
    return scores.layers[head.first][head.second];
  };
  const std::vector<LayerHead> order = ranking(scores);
  // The place in the ranking of the first head without full attention: of all, and of each layer.
  std::optional<std::size_t> first;
  std::vector<std::optional<std::size_t>> first_of(plan.layers.size());
  for (std::size_t place = order.size(); place-- > 0;) {
    if (!chosen(order[place])) {
      first = first_of[order[place].first] = place;
    }
  }
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (!chosen(order[place])) {
      continue;
    }
    const HeadScore& head = score_of(order[place]);
    const auto& rival = first_of[order[place].first];
    ++report.total;
    report.above_zero += head.score > 0 ? 1 : 0;
    if (first && place < *first) {
      won(head, score_of(order[*first]));
    } else if (rival && place < *rival) {
      won(head, score_of(order[*rival]));
    } else {
      ++report.given;
    }
  }
  return report;
}

}  // namespace hydra::model
