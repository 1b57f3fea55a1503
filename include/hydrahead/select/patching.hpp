#pragma once
// Causal effects of a teacher's heads by activation patching (method.md 3.2, 3.3; Eq. 9 and 10 of the paper). All
// attention outputs but the patched ones stay those of the base run, so positions do not interact and the work is
// batched over heads. T tokens, L layers, H heads, Hkv KV heads, d head_dim, D hidden, A rows that are read out.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/data/counterfactual.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/select/select_config.hpp"

namespace hydra::select {

// Eq. 9: m = sum_j w_j (z_j[a+_j] - z_j[a-_j]), w_j = lambda^j / sum lambda^j; with metric prob, softmax z_j for z_j.
// j and the sum run over the whole answer; the A rows are those of its tokens in which answer and distractor differ.
struct Readout {
  at::Tensor rows;                // [A] int64, rows of the sequence
  at::Tensor answer, distractor;  // [A] int64
  at::Tensor weights;             // [A] fp64
  Metric metric = Metric::logit_diff;
};
Readout make_readout(const data::CounterfactualPair& pair, double decay, Metric metric, const at::Device& device);
// m of readout rows [..., A, D] of the residual stream after the last layer: [...], fp64.
at::Tensor margin(const model::Model& teacher, const Readout& readout, const at::Tensor& hidden);

// What a forward pass leaves behind, a tensor a layer.
struct CapturedRun {
  ops::Sequences sequences;  // one
  model::RotaryTables tables;
  std::vector<at::Tensor> hidden;     // [T, D] before each layer, and after the last
  std::vector<at::Tensor> attention;  // [T, D] after W_O
  std::vector<at::Tensor> heads;      // [T, H, d] O_h
};
CapturedRun capture_run(const model::Model& teacher, const std::vector<std::int32_t>& ids);

// The base run and the one whose head outputs are put into it: noising has the clean run for a base and takes outputs
// of the corrupt one, denoising the reverse.
struct PatchedPair {
  const CapturedRun& base;
  const CapturedRun& source;
  const Readout& readout;
  double base_margin, source_margin;  // m of both
};

// A change of one layer's attention output at the readout rows, for cases begin to begin + size.
struct LayerChange {
  std::int64_t begin = 0;
  at::Tensor value;  // [cases, A, D]; undefined: none
};
// m of each case when these changes, one a layer, are made to the base run. Case c runs from the first layer whose
// change reaches it; begin + size must not decrease from layer to layer.
at::Tensor frozen_margins(const model::Model& teacher, const CapturedRun& base, const Readout& readout,
                          const std::vector<LayerChange>& changes);

// IE [L, H], unclipped, fp64 on the CPU: (m(base) - m(base; O_lh <- source)) / (m(base) - m(source)). A head whose
// contribution W_O (O_h(source) - O_h(base)) is zero has exactly 0.
at::Tensor receiver_effects(const model::Model& teacher, const PatchedPair& pair);

// How each upstream head's output changes the outputs of all later heads at the readout rows: O_u of the source at all
// positions, carried through the MLPs with attention frozen to the inputs of the later heads, of which `paths` follow
// it. Does not depend on the choice of receivers, so all rounds share it. Of layer l: [l H, A, H, d], senders in order
// of layer and head; undefined for l = 0.
std::vector<at::Tensor> sender_changes(const model::Model& teacher, const PatchedPair& pair,
                                       const std::vector<SenderPath>& paths);
// IE_send [L, H], unclipped: the drop of m when the outputs of all receivers [L, H] (bool, CPU) change together.
at::Tensor sender_effects(const model::Model& teacher, const PatchedPair& pair, const std::vector<at::Tensor>& changes,
                          const at::Tensor& receivers);

}  // namespace hydra::select
