// The tensor-core passes put together: which inputs they take, their scratch, and the order of their parts.
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
  if (size == 64) {
    return GradientsShared<64>::kBytes > ScanForwardShared<64, 1, true, false>::kBytes
               ? GradientsShared<64>::kBytes
               : ScanForwardShared<64, 1, true, false>::kBytes;
  }
  return wgmma && ScanReverseShared<128, 2, true>::kBytes > GradientsShared<128>::kBytes
             ? ScanReverseShared<128, 2, true>::kBytes
             : GradientsShared<128>::kBytes;
}

std::int64_t states_bytes(const GatedDeltaShape& shape) {
  return shape.slots() * shape.heads * shape.value_size * shape.key_size * 2;
}

}  // namespace

bool tensor_core_supports(bool wgmma, const GatedDeltaInput& in, int major, int shared_memory) {
  const auto size = in.shape.key_size;
  return in.element == Element::bf16 && size == in.shape.value_size && (size == 64 || size == 128) && aligned(in.q) &&
         aligned(in.k) && aligned(in.v) && (wgmma ? major == 9 : major >= 8) && shared_bytes(wgmma, size) <= shared_memory;
}

std::size_t tensor_core_forward_scratch(const GatedDeltaInput&) { return 0; }

std::size_t tensor_core_backward_scratch(const GatedDeltaInput& in) {
  return 2 * static_cast<std::size_t>(states_bytes(in.shape));
}

cudaError_t launch_tensor_core_forward(bool wgmma, const GatedDeltaForward& params, cudaStream_t stream) {
  return launch_scan_forward(wgmma, false, {params.in, params.output, params.final_state, params.inverse, nullptr},
                             stream);
}

cudaError_t launch_tensor_core_backward(bool wgmma, const GatedDeltaBackward& params, cudaStream_t stream) {
  auto* const states = static_cast<char*>(params.scratch);
  auto* const d_states = states + states_bytes(params.in.shape);
  auto error =
      launch_scan_forward(wgmma, true, {params.in, {}, nullptr, const_cast<void*>(params.inverse), states}, stream);
  if (error == cudaSuccess) {
    error = launch_scan_reverse(wgmma,
                                {params.in, params.d_output, params.d_final_state, params.inverse, params.dv, d_states,
                                 params.d_initial_state},
                                stream);
  }
  if (error == cudaSuccess) {
    error = launch_gradients(wgmma,
                             {params.in,
                              params.d_output,
                              {params.dv.data, params.dv.row_stride, params.dv.head_stride},
                              params.inverse,
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
