// The launchers of launch.h: each call goes to the chosen path.
#include "kernels/gated_delta/launch.h"
#include "kernels/gated_delta/portable.cuh"
#include "kernels/gated_delta/tensor_core.h"

namespace hydra::kernels {

bool gated_delta_supports(GatedDeltaPath path, const GatedDeltaInput& in, int major, int shared_bytes) {
  const GatedDeltaShape& shape = in.shape;
  if (shape.key_heads <= 0 || shape.heads % shape.key_heads != 0) {
    return false;
  }
  return path == GatedDeltaPath::portable
             ? portable::supports(in, shared_bytes)
             : tensor_core_supports(path == GatedDeltaPath::wgmma, in, major, shared_bytes);
}

std::size_t gated_delta_saved(GatedDeltaPath path, const GatedDeltaInput& in) {
  return path == GatedDeltaPath::portable ? 0 : tensor_core_saved(in);
}

std::size_t gated_delta_forward_scratch(GatedDeltaPath path, const GatedDeltaInput& in) {
  return path == GatedDeltaPath::portable ? 0 : tensor_core_forward_scratch(in);
}

std::size_t gated_delta_backward_scratch(GatedDeltaPath path, const GatedDeltaInput& in) {
  return path == GatedDeltaPath::portable ? portable::backward_scratch(in) : tensor_core_backward_scratch(in);
}

cudaError_t launch_gated_delta_forward(GatedDeltaPath path, const GatedDeltaForward& p, cudaStream_t stream) {
  if (p.in.shape.sequences == 0 || p.in.shape.heads == 0) {
    return cudaSuccess;
  }
  if (path != GatedDeltaPath::portable) {
    return launch_tensor_core_forward(path == GatedDeltaPath::wgmma, p, stream);
  }
  portable::ScanOutputs outputs;
  outputs.output = p.output;
  outputs.final_state = p.final_state;
  return portable::launch_scan(p.in, outputs, stream);
}

cudaError_t launch_gated_delta_backward(GatedDeltaPath path, const GatedDeltaBackward& p, cudaStream_t stream) {
  if (p.in.shape.sequences == 0 || p.in.shape.heads == 0) {
    return cudaSuccess;
  }
  return path == GatedDeltaPath::portable ? portable::launch_backward(p, stream)
                                          : launch_tensor_core_backward(path == GatedDeltaPath::wgmma, p, stream);
}

}  // namespace hydra::kernels
