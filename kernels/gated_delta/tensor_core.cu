// The tensor-core passes put together: which inputs they take, how sequences are cut into segments, memory, and the
// order of the parts.
#include "kernels/gated_delta/gradients.cuh"
#include "kernels/gated_delta/scan_forward.cuh"
#include "kernels/gated_delta/scan_reverse.cuh"
#include "kernels/gated_delta/tensor_core.cuh"
#include "kernels/gated_delta/tensor_core.h"

namespace hydra::kernels {
namespace {

bool aligned(const ConstHeadRows& rows) {
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.row_stride % 8 == 0 && rows.head_stride % 8 == 0;
}

// Shared memory of the largest block of any pass.
int shared_bytes(bool wgmma, int size) {
  const auto larger = [](int a, int b) { return a > b ? a : b; };
  if (size == 64) {
    return larger(GradientsShared<64>::kBytes, larger(ScanForwardShared<64, 1, true, ScanMode::output>::kBytes,
                                                      ScanReverseShared<64, 1, true, ReverseMode::gradients>::kBytes));
  }
  return wgmma ? larger(GradientsShared<128>::kBytes, ScanReverseShared<128, 2, true, ReverseMode::gradients>::kBytes)
               : larger(GradientsShared<128>::kBytes, ScanReverseShared<128, 1, false, ReverseMode::gradients>::kBytes);
}

constexpr int kBlocksAtOnce = 132;         // one a multiprocessor of an H100 or H200
constexpr int kSmallestSegment = 16;       // chunks
constexpr int kWholeSequence = 0x1000000;  // more chunks than a sequence can have

// Chunks of a segment. A segment costs a second scan over its rows for its summary, so a sequence is cut only where
// sequences and heads leave more than half of the GPU without a block.
std::int32_t segment_chunks(const GatedDeltaShape& shape) {
  const auto blocks = static_cast<std::int64_t>(shape.sequences) * shape.heads;
  const auto wanted = kBlocksAtOnce / shape.heads;  // segments of all sequences together
  if (blocks > 48 || wanted <= shape.sequences) {
    return kWholeSequence;
  }
  const auto chunks = (shape.rows + kGatedDeltaChunk - 1) / kGatedDeltaChunk;
  const auto length = (chunks + wanted - 1) / wanted;
  return static_cast<std::int32_t>(length > kSmallestSegment ? length : kSmallestSegment);
}

struct Sizes {
  std::size_t inverse, states, segment_states, transitions;  // bytes
};
Sizes sizes_of(const GatedDeltaInput& in) {
  const auto& shape = in.shape;
  const auto heads = static_cast<std::size_t>(shape.heads);
  const auto key_size = static_cast<std::size_t>(shape.key_size);
  const auto value_size = static_cast<std::size_t>(shape.value_size);
  const auto slots = static_cast<std::size_t>(shape.slots()) * heads;
  const auto chunks = segment_chunks(shape);
  const auto segments = chunks == kWholeSequence ? 0 : static_cast<std::size_t>(segment_slots(shape, chunks)) * heads;
  return {slots * kTileBytes, slots * value_size * key_size * 2, segments * value_size * key_size * 4,
          segments * key_size * key_size * 4};
}

SegmentStates segments_at(void* memory, const GatedDeltaInput& in) {
  auto* const states = static_cast<float*>(memory);
  return {segment_chunks(in.shape), states, states + sizes_of(in).segment_states / 4};
}

}  // namespace

bool tensor_core_supports(bool wgmma, const GatedDeltaInput& in, int major, int shared_memory) {
  const auto size = in.shape.key_size;
  return in.element == Element::bf16 && size == in.shape.value_size && (size == 64 || size == 128) && aligned(in.q) &&
         aligned(in.k) && aligned(in.v) && (wgmma ? major == 9 : major >= 8) &&
         shared_bytes(wgmma, size) <= shared_memory;
}

// Saved: the inverses, then the segments' states and transitions. Without a backward pass the latter are scratch.
std::size_t tensor_core_saved(const GatedDeltaInput& in) {
  const auto sizes = sizes_of(in);
  return sizes.inverse + sizes.segment_states + sizes.transitions;
}

std::size_t tensor_core_forward_scratch(const GatedDeltaInput& in) {
  const auto sizes = sizes_of(in);
  return sizes.segment_states + sizes.transitions;
}

std::size_t tensor_core_backward_scratch(const GatedDeltaInput& in) {
  const auto sizes = sizes_of(in);
  return 2 * sizes.states + sizes.segment_states;
}

cudaError_t launch_tensor_core_forward(bool wgmma, const GatedDeltaForward& params, cudaStream_t stream) {
  auto* const saved = static_cast<char*>(params.saved);
  ScanForwardParams p{
      params.in,     segments_at(saved != nullptr ? saved + sizes_of(params.in).inverse : params.scratch, params.in),
      params.output, params.final_state,
      saved,         nullptr};
  auto error = cudaSuccess;
  if (p.segments.chunks != kWholeSequence) {
    error = launch_scan_forward(wgmma, ScanMode::summary, p, stream);
    if (error == cudaSuccess) {
      error = launch_segment_states(false, params.in, p.segments, stream);
    }
  }
  return error == cudaSuccess ? launch_scan_forward(wgmma, ScanMode::output, p, stream) : error;
}

cudaError_t launch_tensor_core_backward(bool wgmma, const GatedDeltaBackward& params, cudaStream_t stream) {
  const auto sizes = sizes_of(params.in);
  auto* const saved = const_cast<char*>(static_cast<const char*>(params.saved));
  auto* const states = static_cast<char*>(params.scratch);
  auto* const d_states = states + sizes.states;
  const auto segments = segments_at(saved + sizes.inverse, params.in);
  auto error = launch_scan_forward(wgmma, ScanMode::states, {params.in, segments, {}, nullptr, saved, states}, stream);
  const ScanReverseParams reverse{
      params.in,       {segments.chunks, reinterpret_cast<float*>(d_states + sizes.states), segments.transitions},
      params.d_output, params.d_final_state,
      saved,           params.dv,
      d_states,        params.d_initial_state};
  if (error == cudaSuccess && segments.chunks != kWholeSequence) {
    error = launch_scan_reverse(wgmma, ReverseMode::summary, reverse, stream);
    if (error == cudaSuccess) {
      error = launch_segment_states(true, params.in, reverse.segments, stream);
    }
  }
  if (error == cudaSuccess) {
    error = launch_scan_reverse(wgmma, ReverseMode::gradients, reverse, stream);
  }
  if (error == cudaSuccess) {
    error = launch_gradients(wgmma,
                             {params.in,
                              params.d_output,
                              {params.dv.data, params.dv.row_stride, params.dv.head_stride},
                              saved,
                              states,
                              d_states,
                              params.dq,
                              params.dk,
                              params.dg,
                              params.d_beta},
                             stream);
  }
  return error;
}

}  // namespace hydra::kernels
