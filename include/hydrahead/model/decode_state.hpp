#pragma once
// The inference cache (method.md section 9): KV only for touched groups, GDN states, convolution tails.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/model/generate.hpp"

namespace hydra::model {

struct LayerState {
  std::vector<at::Tensor> k, v;  // per sequence [capacity, groups, d], normed keys; grown by doubling
  at::Tensor gdn;                // [S, H_L, d_v, d_k], V-first
  at::Tensor q_conv, k_conv, v_conv;  // [S, channels, 3]
};

struct DecodeState {
  std::vector<std::int64_t> length;  // tokens seen by each sequence
  std::vector<LayerState> layers;
  std::int64_t bytes() const;
};

DecodeState make_decode_state(const Model& model, std::int64_t sequences, StateType type);

// Advances the state by new rows of every sequence (ids [N], lengths a sequence, zeros allowed); returns the hidden
// state of each sequence's last new row [S', D] for the S' sequences that had rows. Any split of a prompt gives the
// same result.
at::Tensor advance(const Model& model, DecodeState& state, const at::Tensor& ids,
                   const std::vector<std::int64_t>& lengths, bool log_scale);

}  // namespace hydra::model
