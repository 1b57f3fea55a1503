#pragma once
// What a teacher's heads do, beside their scores: where they look, how large their outputs are, and how alike heads and
// layers are (the questions behind choosing heads, not layers: method.md section 1).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/model/hydra_model.hpp"

namespace hydra::select {

// L layers, H heads, A = L H heads in order of layer, then head; fp64 on the CPU.
struct HeadAnalysis {
  std::int64_t tokens = 0, sequences = 0;
  at::Tensor distance, entropy, sink;  // [L, H]: tokens, nats, share (model/attention_shape.hpp)
  at::Tensor rms;                      // [L, H] of O_h over tokens and channels
  // Cosines are those of a head's part of the residual stream, W_O[:, h] O_h, and of a layer's sum of them; CKA
  // compares the O_h of heads, and the attention outputs of layers.
  at::Tensor head_cosine, head_cka;    // [A, A]
  at::Tensor layer_cosine, layer_cka;  // [L, L]
};

// One pass over token sequences of at least two tokens each. Keeps the outputs of all heads at all tokens.
HeadAnalysis analyse_heads(const model::Model& teacher, const std::vector<std::vector<std::int32_t>>& sequences);

// Writes <dir>/analysis.json and analysis.html. scores [L, H] >= 0: with them come importance and its Gini coefficient
// by layer. `inputs` says what the sequences are.
void write_analysis(const std::filesystem::path& dir, const std::string& model_name, const std::string& inputs,
                    const HeadAnalysis& analysis, const std::optional<at::Tensor>& scores);

Json analysis_json(const HeadAnalysis& analysis, const std::optional<at::Tensor>& scores);

}  // namespace hydra::select
