#pragma once
// Arguments of the gated delta-rule kernels: plain data, no torch and no CUDA header.
// Symbols as in the recurrence: N rows (tokens of all sequences), S sequences, H value heads, Hk query/key heads (Hk
// divides H; value head h reads key head h / (H/Hk)), K and V head sizes.
//   S_t = exp(g_t) S_{t-1} + k_t (beta_t (v_t - exp(g_t) S_{t-1}^T k_t))^T,   o_t = scale S_t^T q_t
// A chunk is 64 rows of one sequence. Chunk c of sequence s has the slot offsets[s] / 64 + s + c, so the slots
// [0, N / 64 + S) hold every chunk of any packing without a table; slots that no chunk owns stay unused.

#include <cstdint>

#include "kernels/element.h"
#include "kernels/head_rows.h"

namespace hydra::kernels {

constexpr int kGatedDeltaChunk = 64;

struct GatedDeltaShape {
  std::int64_t rows = 0;        // N
  std::int32_t sequences = 0;   // S
  std::int32_t heads = 0;       // H
  std::int32_t key_heads = 0;   // Hk
  std::int32_t key_size = 0;    // K, even, at most 256
  std::int32_t value_size = 0;  // V, even, at most 256

  std::int64_t slots() const { return rows / kGatedDeltaChunk + sequences; }
};

// What every pass reads. Element types: q, k, v, output and their gradients `element`; all else fp32.
struct GatedDeltaInput {
  GatedDeltaShape shape;
  Element element = Element::bf16;
  const std::int32_t* offsets = nullptr;  // [S+1] on the device; empty sequences are allowed
  ConstHeadRows q, k;           // [N, Hk, K]; rows of k have length 1 at most (nothing bounds the inverse else)
  ConstHeadRows v;              // [N, H, V]
  const float* g = nullptr;     // [N, H] log decay, <= 0
  const float* beta = nullptr;  // [N, H] in [0, 2]
  const float* initial_state = nullptr;  // [S, H, V, K], or null for zero
  float scale = 1.0F;
};

struct GatedDeltaForward {
  GatedDeltaInput in;
  HeadRows output;               // [N, H, V]
  float* final_state = nullptr;  // [S, H, V, K], or null if not wanted
  void* saved = nullptr;         // gated_delta_saved(in) bytes, kept for the backward pass; null if there is none
  void* scratch = nullptr;       // gated_delta_forward_scratch(in) bytes
};

struct GatedDeltaBackward {
  GatedDeltaInput in;
  ConstHeadRows d_output;                // [N, H, V]
  const float* d_final_state = nullptr;  // [S, H, V, K], or null for zero
  const void* saved = nullptr;           // from the forward pass
  HeadRows dq, dk;                       // [N, H, K]: per value head, also where heads share keys
  HeadRows dv;                           // [N, H, V]
  float* dg = nullptr;                   // [N, H]
  float* d_beta = nullptr;               // [N, H]
  float* d_initial_state = nullptr;      // [S, H, V, K], or null if not wanted
  void* scratch = nullptr;               // gated_delta_backward_scratch(in) bytes
};

// T = 1..8 new rows for each sequence of a batch; the state is read and written in place.
struct GatedDeltaDecode {
  GatedDeltaInput in;       // initial_state is not read; rows of sequence s are offsets[s]..offsets[s+1]
  HeadRows output;          // [N, H, V]
  float* states = nullptr;  // [pool, H, V, K]
  const std::int32_t* state_index = nullptr;  // [S] entry of the pool, negative: skip the sequence; null: s itself
};

}  // namespace hydra::kernels
