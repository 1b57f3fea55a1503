#pragma once
// How far and how widely the heads of a teacher look: mean attention distance and entropy (method.md 4.4). The first
// query and the first key of every sequence (the sink) are left out and rows renormalised. Scores are formed for a
// block of queries and a block of keys at a time, joined by a running maximum as in online softmax.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// Sums over queries, a value a head [H], fp64 on the model's device.
struct AttentionShape {
  at::Tensor distance;  // sum over keys of p (position of the query - position of the key), tokens
  at::Tensor entropy;   // -sum p ln p, nats
  at::Tensor sink;      // share of the first key before it is left out
  std::int64_t queries = 0;
};
AttentionShape empty_attention_shape(const Model& teacher);

// Adds the queries of one layer: input [N, D] is the attention sublayer's normed input.
void add_attention_shape(const Model& teacher, std::int64_t layer, const at::Tensor& input,
                         const ops::Sequences& sequences, const RotaryTables& tables, AttentionShape& shape);

}  // namespace hydra::model
