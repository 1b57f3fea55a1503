#pragma once
// Launchers of the short convolution: one launch forward (also for single steps with a history), two backward. They
// enqueue on `stream`, never synchronise, and give the same bits for the same inputs on the same device.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/short_conv/params.h"

namespace hydra::kernels {

std::size_t short_conv_backward_scratch(const ShortConv& in);

cudaError_t launch_short_conv_forward(const ShortConvForward& params, cudaStream_t stream);
cudaError_t launch_short_conv_backward(const ShortConvBackward& params, cudaStream_t stream);

}  // namespace hydra::kernels
