#pragma once
// Launchers of the gated delta rule's input kernels: one launch forward, two backward. They enqueue on `stream`, never
// synchronise, and give the same bits for the same inputs on the same device.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/gdn_inputs/params.h"

namespace hydra::kernels {

std::size_t gdn_inputs_backward_scratch(const GdnProjections& in);

cudaError_t launch_gdn_inputs_forward(const GdnInputsForward& params, cudaStream_t stream);
cudaError_t launch_gdn_inputs_backward(const GdnInputsBackward& params, cudaStream_t stream);

}  // namespace hydra::kernels
