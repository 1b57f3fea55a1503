#pragma once
// RULER's scoring of one answer, and confidence intervals (evaluation.md sections 1 and 10).

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydra::eval {

// Strip, every character U+0000..U+001F to "\n", strip again (white space is Python's).
std::string postprocess(std::string_view prediction);

// Percent of references that occur in the prediction, letters compared in lower case (RULER's string_match_all).
double string_match_all(std::string_view prediction, std::span<const std::string> references);
// 100 if any reference occurs, else 0 (RULER's string_match_part).
double string_match_part(std::string_view prediction, std::span<const std::string> references);

// What an answer is made of: counts the items of a prediction for its precision.
enum class AnswerKind { number, uuid, word };
AnswerKind answer_kind(std::span<const std::string> references);

struct SampleScore {
  std::vector<bool> hits;  // per reference
  double score = 0.0;      // share of references found, 0..1: RULER's, as a fraction
  double strict = 0.0;     // the same, where no letter or digit may stand on either side
  double precision = 0.0;  // references found / distinct items of the answer's kind; 0 without any item
  double f1 = 0.0;         // of precision and score
};
SampleScore score_sample(std::string_view prediction, std::span<const std::string> references);

struct Interval {
  double low = 0.0, high = 0.0;
};
// Wilson's 95% interval of a proportion p in [0, 1] of n samples; conservative for fractional scores.
Interval wilson_interval(double p, std::size_t n);

}  // namespace hydra::eval
