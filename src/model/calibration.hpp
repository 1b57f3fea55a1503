#pragma once
// Internal to conversion: statistics of the teacher's heads over calibration tokens (method.md 4.4).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "hydrahead/model/convert.hpp"

namespace hydra::model {

// Statistics of one teacher layer, a value a head [H], fp64 on the CPU.
struct HeadStatistics {
  std::vector<double> rms;            // E[rms(O_h)] over all positions
  std::vector<double> distance;       // mean attention distance, tokens
  std::vector<double> concentration;  // 1 - entropy, min-max normalised over the layer's heads
};

// What a visitor of one layer gets: inputs and head outputs of a group of sequences.
struct CalibrationSlice {
  at::Tensor input;         // [N, D] the attention sublayer's normed input
  at::Tensor head_outputs;  // [N, H, d]
  ops::Sequences sequences;
  RotaryTables tables;
};

// One pass of the teacher over the calibration tokens, layer by layer: begin_layer with the layer's statistics,
// on_slice for every slice, end_layer.
void walk_teacher(const Model& teacher, const CalibrationTokens& tokens,
                  const std::function<void(std::int64_t layer, const HeadStatistics&)>& begin_layer,
                  const std::function<void(std::int64_t layer, const CalibrationSlice&)>& on_slice,
                  const std::function<void(std::int64_t layer)>& end_layer);

}  // namespace hydra::model
