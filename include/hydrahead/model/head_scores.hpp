#pragma once
// The scores that `select` gives the heads of a teacher, as far as head plans need them (method.md 3.4, 3.5).

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/model/qwen3_config.hpp"

namespace hydra::model {

using LayerHead = std::pair<std::int64_t, std::int64_t>;

// The keys that heads are sorted by, one after another.
struct HeadScore {
  double score = 0;        // s_h of Eq. 12, in [0, 1]
  double effect = 0;       // mean unclipped effect, without kappa
  double attribution = 0;  // gradient score
};
struct HeadScores {
  std::string teacher_sha256, method;
  std::vector<std::vector<HeadScore>> layers;  // [L][H]
};

// Every head once, the most important first: by (score, effect, attribution, -(l H + h)), descending.
std::vector<LayerHead> ranking(const HeadScores& scores);

// The part of scores.json that plans are made from: {format: "hydrahead scores 1", teacher_sha256, method, layers,
// heads, scores: [[{score, effect, attribution}, ...], ...]}; further keys of the file are for its readers. UserError:
// not such a file, other shapes than the teacher's, values that are not finite, a score outside of [0, 1], another
// teacher's hash ("" skips that check).
HeadScores read_scores(const std::filesystem::path& file, const Qwen3Config& config, const std::string& teacher_sha256);
Json to_json(const HeadScores& scores);

}  // namespace hydra::model
