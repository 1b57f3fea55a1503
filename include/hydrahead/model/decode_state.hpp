#pragma once
// The inference cache (method.md section 9): KV only for touched groups, GDN states, convolution tails.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hydrahead/model/generate.hpp"

namespace hydra::model {

struct LayerState {
  std::vector<at::Tensor> k,
      v;           // a sequence each: [capacity, groups, d], keys as attention reads them; grown as needed
  at::Tensor gdn;  // [S, H_L, d_v, d_k], V-first
  at::Tensor q_conv, k_conv, v_conv;  // [S, channels, 3]
};

struct DecodeState {
  std::vector<std::int64_t> length;  // [S] tokens seen by each sequence
  std::vector<LayerState> layers;
  std::int64_t bytes() const;  // of the tensors held now
};

// The empty state of `sequences` sequences; KV memory is taken as they grow.
DecodeState make_decode_state(const Model& model, std::int64_t sequences, StateType type);

// Advances every sequence by lengths[s] >= 1 new rows (ids [N] int64, sequences end to end) and returns the hidden
// state of each sequence's last row after the final norm, [S, D]. Any split of a prompt gives the same result.
at::Tensor advance(const Model& model, DecodeState& state, const at::Tensor& ids,
                   const std::vector<std::int64_t>& lengths, bool log_scale);

// The sequences of several states in one, in order; the parts are consumed.
DecodeState merge_states(std::vector<DecodeState> parts);

// Keeps the given sequences (ascending), for example when others have ended.
void keep_sequences(DecodeState& state, const std::vector<std::int64_t>& kept);

}  // namespace hydra::model
