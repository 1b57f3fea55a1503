#pragma once
// Launchers of the kernels that join the branches' heads: one launch forward, one or two (shared amplitudes) backward.
// They enqueue on `stream`, never synchronise, and give the same bits for the same inputs on the same device.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/head_output/params.h"

namespace hydra::kernels {

std::size_t head_output_backward_scratch(const HeadOutput& in);

cudaError_t launch_head_output_forward(const HeadOutputForward& params, cudaStream_t stream);
cudaError_t launch_head_output_backward(const HeadOutputBackward& params, cudaStream_t stream);

}  // namespace hydra::kernels
