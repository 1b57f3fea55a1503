#pragma once
// The tensor-core paths behind launch.h: mma.sync (wgmma = false) and wgmma.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/gated_delta/params.h"

namespace hydra::kernels {

bool tensor_core_supports(bool wgmma, const GatedDeltaInput& in, int major, int shared_bytes);
std::size_t tensor_core_saved(const GatedDeltaInput& in);
std::size_t tensor_core_forward_scratch(const GatedDeltaInput& in);
std::size_t tensor_core_backward_scratch(const GatedDeltaInput& in);
cudaError_t launch_tensor_core_forward(bool wgmma, const GatedDeltaForward& params, cudaStream_t stream);
cudaError_t launch_tensor_core_backward(bool wgmma, const GatedDeltaBackward& params, cudaStream_t stream);

}  // namespace hydra::kernels
