#pragma once
// Launcher of the fused KL + CE kernel.

#include <cuda_runtime_api.h>

#include "kernels/distill_loss/params.h"

namespace hydra::kernels {

// Enqueues on `stream`. Gradient types: fp32 or bf16 for fp32 logits, bf16 for bf16 logits.
cudaError_t launch_kl_ce(const KlCeParams& params, cudaStream_t stream);

}  // namespace hydra::kernels
