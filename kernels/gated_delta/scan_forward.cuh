#pragma once
// The forward scan over the chunks of one sequence and head (kernels.md sections 1 and 4), states transposed:
//   W^T = V^T - S^T (gamma K)^T        U^T = beta W^T + (beta W^T) strict_lower(R)^T,   R = Gamma (I + L)^-1
//   O^T = scale gamma S^T Q^T + U^T P^T,  P = scale Gamma lower(Q K^T)      S^T <- gamma_C S^T + (rest U)^T K
// One block: state warpgroups (one per 64 rows of V), and warpgroups that load chunks ahead and form their R and P.

#include "kernels/gated_delta/scan_forward_factors.cuh"
#include "kernels/gated_delta/scan_forward_states.cuh"
#include "kernels/gated_delta/segment_reach.cuh"

namespace hydra::kernels {

// Where a sequence is cut into segments, each starts from the state that the segment summaries gave it. A summary is
// what the segment makes of its start: S_end^T = S_start^T Phi + N^T. N is the scan from a zero state; row r of Phi [K,
// K] is the scan of the r-th unit vector with V = 0.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ __forceinline__ BlockPlace block_place(const ScanForwardParams& p, const Segment& segment,
                                                  std::int64_t segment_slot, int head, bool transition,
                                                  bool from_zero) {
  const auto heads = static_cast<std::int64_t>(p.in.shape.heads);
  const int key_head = head / (p.in.shape.heads / p.in.shape.key_heads);
  const int value = static_cast<int>(blockIdx.y) % (kSize / 64 / kGroups) * kGroups * 64;
  const auto row = segment.sequence.first_row + segment.first_chunk * kGatedDeltaChunk;
  const auto chunk = (segment.sequence.first_slot + segment.first_chunk) * heads + head;
  // This block's rows of a state [.., H, V, K].
  const auto state_rows = [&](std::int64_t i) {
    return ((i * heads + head) * kSize + value) * static_cast<std::int64_t>(kSize);
  };
  BlockPlace place{};
  place.k = static_cast<const char*>(head_rows(p.in.k, row, key_head));
  place.q = static_cast<const char*>(head_rows(p.in.q, row, key_head));
  place.v = static_cast<const char*>(head_rows(p.in.v, row, head, value));
  place.g = p.in.g + row * heads + head;
  place.beta = p.in.beta + row * heads + head;
  place.inverse = p.inverse == nullptr ? nullptr : static_cast<char*>(p.inverse) + chunk * kTileBytes;
  if constexpr (kMode == ScanMode::output) {
    place.to =
        static_cast<char*>(p.output.data) + (row * p.output.row_stride + head * p.output.head_stride + value) * 2;
  } else if constexpr (kMode == ScanMode::states) {
    place.to = static_cast<char*>(p.states) + (chunk * kSize + value) * kSize * 2;
  }
  const float* start = from_zero                    ? nullptr
                       : segment.index == 0         ? p.in.initial_state
                       : kMode == ScanMode::summary ? nullptr
                                                    : p.segments.states;
  place.start =
      start == nullptr ? nullptr : start + state_rows(segment.index == 0 ? segment.sequence_index : segment_slot);
  if constexpr (kMode == ScanMode::summary) {  // the next slot is the same sequence's next segment
    place.end = transition ? p.segments.transitions + state_rows(segment_slot)
                           : p.segments.states + state_rows(segment_slot + 1);
  } else if (p.final_state != nullptr && segment.index + 1 == segment.count) {
    place.end = p.final_state + state_rows(segment.sequence_index);
  }
  place.rows = segment.sequence.length - segment.first_chunk * kGatedDeltaChunk;
  place.chunks = segment.chunks;
  return place;
}

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
__device__ void scan_forward(const ScanForwardParams& p, char* memory) {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  const int head = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.in.shape.heads));
  const auto segment_slot = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(p.in.shape.heads));
  const bool transition =  // Phi, not N
      kMode == ScanMode::summary && static_cast<int>(blockIdx.y) >= kSize / 64 / kGroups;
  bool from_unit = false;
  const ScanForwardParts<kSize, kGroups, kWgmma, kMode> parts{(shared_address(memory) + 1023U) & ~1023U};
  {
    auto segment = segment_of_slot(p.in.offsets, p.in.shape.sequences, segment_slot, p.segments.chunks);
    // The last segment's end is nobody's start, and the first one starts from the sequence's own initial state.
    if (segment.index >= segment.count ||
        (kMode == ScanMode::summary && (segment.index + 1 == segment.count || (transition && segment.index == 0)))) {
      return;
    }
    int skipped = 0;  // chunks of which nothing is left at the segment's end
    if constexpr (kMode == ScanMode::summary) {
      const auto heads = static_cast<std::int64_t>(p.in.shape.heads);
      const int rows = segment.chunks * kGatedDeltaChunk;
      const auto last = segment.sequence.first_row + segment.first_chunk * kGatedDeltaChunk + rows - 1;
      skipped = (rows - rows_within_reach<Shared::kThreads>(p.in.g + last * heads + head, -heads, rows,
                                                            reinterpret_cast<float*>(memory))) /
                kGatedDeltaChunk;
      segment.first_chunk += skipped;
      segment.chunks -= skipped;
      if (transition && skipped > 0) {  // Phi is zero
        segment.chunks = 0;
      }
    }
    from_unit = transition && skipped == 0;
    if (threadIdx.x == 0) {
      *reinterpret_cast<BlockPlace*>(memory + (parts.place(0) - shared_address(memory))) =
          block_place<kSize, kGroups, kWgmma, kMode>(p, segment, segment_slot, head, transition, skipped > 0);
      parts.barriers().init(4, kGroups * 4, kGroups * 4);
    }
  }
  if (transition) {
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      clear_tiles(parts.v(stage), kGroups * kTileBytes, Shared::kThreads);
    }
  }
  clear_tiles(parts.r(0), 2 * Shared::kFactor, Shared::kThreads);  // above the diagonal they stay zero
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group < kGroups) {
    if constexpr (kWgmma) {
      set_registers_up<kGroups == 1 ? 208 : 176>();
    }
    scan_states(p, parts, group, from_unit);
  } else {
    if constexpr (kWgmma) {
      set_registers_down<kGroups == 1 ? 144 : 80>();
    }
    form_factors(p, parts, group - kGroups, transition);
  }
}

}  // namespace hydra::kernels
