#pragma once
// What the warpgroups of a block of the forward scan share, and where its rows lie.

#include "kernels/gated_delta/scan_common.cuh"
#include "kernels/gated_delta/tensor_core.cuh"

namespace hydra::kernels {

// The block's segment in global memory: written once, read per chunk, so that it takes no registers. Pointers are to
// the segment's first row (or chunk) of the block's head and, in v and `to`, its first column or row of V.
struct BlockPlace {
  const char* k;
  const char* q;
  const char* v;
  const float* g;
  const float* beta;
  char* inverse;       // saved by mode `output` if not null, read by mode `states`
  char* to;            // the output, or the chunks' states
  const float* start;  // rows of the state before the segment; null: zero
  float* end;          // rows of the state after it, or null
  std::int32_t rows;   // to the sequence's end
  std::int32_t chunks;
};

template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
struct ScanForwardShared {
  static constexpr bool kHasOutput = kMode == ScanMode::output;
  static constexpr bool kHasStates = kMode == ScanMode::states;
  static constexpr int kStages = 3;
  // With wgmma two warpgroups form factors, one the even and one the odd chunks'.
  static constexpr int kFactorGroups = kWgmma ? 2 : 1;
  static constexpr int kThreads = (kGroups + kFactorGroups) * 128;
  // A stage: K, Q, V and the saved inverse.
  static constexpr int kQ = kSize / 64 * kTileBytes;
  static constexpr int kV = kQ + (kHasOutput ? kQ : 0);
  static constexpr int kSavedInverse = kV + kGroups * kTileBytes;
  static constexpr int kStage = kSavedInverse + (kHasStates ? kTileBytes : 0);
  // Factors R and P, in two slots.
  static constexpr int kFactors = kStages * kStage;
  static constexpr int kFactor = (kHasOutput ? 2 : 1) * kTileBytes;
  // The inverse in fp16 and its scratch, per warpgroup.
  static constexpr int kInverses = kFactors + 2 * kFactor;
  static constexpr int kInverse = kHasStates ? 0 : kTileBytes;
  static constexpr int kScratches = kInverses + kFactorGroups * kInverse;
  static constexpr int kScratch = kHasStates ? 0 : kInverseScratchBytes;
  // Where a warp rearranges 64 columns of its rows of a state.
  static constexpr int kStaging = kScratches + kFactorGroups * kScratch;
  static constexpr int kStagingWarp = kHasStates ? 16 * 128 : 0;
  static constexpr int kGates = kStaging + kGroups * 4 * kStagingWarp;
  static constexpr int kPlace = kGates + kStages * static_cast<int>(sizeof(ChunkGates));
  static constexpr int kBarriers = kPlace + (static_cast<int>(sizeof(BlockPlace)) + 15) / 16 * 16;
  static constexpr int kBytes = kBarriers + 16 * 8 + 1024;  // the base is aligned to 1024 at run time
};

// The parts by their shared-memory addresses.
template <int kSize, int kGroups, bool kWgmma, ScanMode kMode>
struct ScanForwardParts {
  using Shared = ScanForwardShared<kSize, kGroups, kWgmma, kMode>;
  std::uint32_t base;
  __device__ __forceinline__ std::uint32_t at(int offset) const { return base + static_cast<std::uint32_t>(offset); }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return at(stage * Shared::kStage); }
  __device__ __forceinline__ std::uint32_t q(int stage) const { return at(stage * Shared::kStage + Shared::kQ); }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return at(stage * Shared::kStage + Shared::kV); }
  __device__ __forceinline__ std::uint32_t saved_inverse(int stage) const {
    return at(stage * Shared::kStage + Shared::kSavedInverse);
  }
  __device__ __forceinline__ std::uint32_t gates(int stage) const {
    return at(Shared::kGates + stage * static_cast<int>(sizeof(ChunkGates)));
  }
  __device__ __forceinline__ std::uint32_t r(int slot) const { return at(Shared::kFactors + slot * Shared::kFactor); }
  __device__ __forceinline__ std::uint32_t p(int slot) const { return r(slot) + kTileBytes; }
  __device__ __forceinline__ std::uint32_t place(std::size_t field) const {
    return at(Shared::kPlace + static_cast<int>(field));
  }
  __device__ __forceinline__ ScanBarriers<Shared::kStages> barriers() const { return {at(Shared::kBarriers)}; }
};

__device__ __forceinline__ char* load_shared_pointer(std::uint32_t address) {
  return reinterpret_cast<char*>(load_shared_64(address));
}

}  // namespace hydra::kernels
