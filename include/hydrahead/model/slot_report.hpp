#pragma once
// What decided the places of a head plan: the scores, or only the keys that tell equal scores apart (method.md 3.5). A
// plan that ties filled says little about its heads.

#include <cstdint>

#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/head_scores.hpp"

namespace hydra::model {

// A head of the plan has won its place if it stands before every head without one: in the whole ranking, or, as under
// the rules that give each layer its share, among the heads of its layer. The first key in which it differs from the
// best of those decided.
struct SlotReport {
  std::int64_t total = 0;
  std::int64_t above_zero = 0;  // heads of the plan with a score above 0, won or not
  std::int64_t by_score = 0, by_effect = 0, by_attribution = 0, by_order = 0;
  std::int64_t given = 0;  // not won: always_keep, siblings of a KV group, whole layers, rules without scores

  std::int64_t by_ties() const { return by_effect + by_attribution + by_order; }
};

// The plan and the scores are of one model.
SlotReport count_slots(const HeadPlan& plan, const HeadScores& scores);

}  // namespace hydra::model
