// Binding of kernels/gated_delta: chooses the path, allocates results and scratch, fills the kernels' parameters.
#include "hydrahead/ops/gated_delta_cuda.hpp"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <mutex>

#include "gated_delta_function.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "kernels/gated_delta/launch.h"

namespace hydra::ops {
namespace {

constexpr std::int64_t kVectorBytes = 16;  // alignment of rows for the tensor-core paths

kernels::GatedDeltaPath kernel_path(GatedDeltaPath path) {
  HYDRA_CHECK(path != GatedDeltaPath::aten, "the ATen path has no kernels");
  return path == GatedDeltaPath::portable ? kernels::GatedDeltaPath::portable
         : path == GatedDeltaPath::mma    ? kernels::GatedDeltaPath::mma
                                          : kernels::GatedDeltaPath::wgmma;
}

// Strides of the first two dimensions; those of a dimension of size 1 may hold anything and are replaced.
std::array<std::int64_t, 2> row_strides(const at::Tensor& x) {
  const auto head = x.size(1) == 1 ? x.size(2) : x.stride(1);
  return {x.size(0) == 1 ? head * x.size(1) : x.stride(0), head};
}

bool rows_aligned(const at::Tensor& x) {
  const auto [row, head] = row_strides(x);
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kVectorBytes == 0 &&
         row * x.element_size() % kVectorBytes == 0 && head * x.element_size() % kVectorBytes == 0;
}

at::Tensor prepared_rows(GatedDeltaPath path, const at::Tensor& x) {
  const bool copy = x.stride(2) != 1 || (path != GatedDeltaPath::portable && !rows_aligned(x));
  return copy ? x.clone(at::MemoryFormat::Contiguous) : x;
}

kernels::ConstHeadRows head_rows(const at::Tensor& x) {
  const auto [row, head] = row_strides(x);
  return {x.const_data_ptr(), row, head};
}
kernels::HeadRows mutable_head_rows(const at::Tensor& x) {
  const auto [row, head] = row_strides(x);
  return {x.mutable_data_ptr(), row, head};
}

const float* floats(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
float* mutable_floats(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

bool has_one_type(const GatedDeltaTensors& x) {
  return (x.q.scalar_type() == at::kFloat || x.q.scalar_type() == at::kBFloat16) &&
         x.k.scalar_type() == x.q.scalar_type() && x.v.scalar_type() == x.q.scalar_type();
}

// Sizes and type; rows as prepared_for copies them where it copies.
kernels::GatedDeltaInput kernel_shape(const GatedDeltaTensors& x) {
  kernels::GatedDeltaInput in;
  in.shape = {.rows = x.q.size(0),
              .sequences = static_cast<std::int32_t>(x.offsets.size(0) - 1),
              .heads = static_cast<std::int32_t>(x.v.size(1)),
              .key_heads = static_cast<std::int32_t>(x.q.size(1)),
              .key_size = static_cast<std::int32_t>(x.q.size(2)),
              .value_size = static_cast<std::int32_t>(x.v.size(2))};
  in.element = x.q.scalar_type() == at::kFloat ? kernels::Element::fp32 : kernels::Element::bf16;
  in.q = in.k = {nullptr, x.q.size(1) * x.q.size(2), x.q.size(2)};
  in.v = {nullptr, x.v.size(1) * x.v.size(2), x.v.size(2)};
  return in;
}

kernels::GatedDeltaInput kernel_input(const GatedDeltaTensors& x) {
  const auto is_plain = [](const at::Tensor& t) {
    return !t.defined() || (t.scalar_type() == at::kFloat && t.is_contiguous() && t.is_cuda());
  };
  HYDRA_CHECK(has_one_type(x) && x.q.stride(2) == 1 && x.k.stride(2) == 1 && x.v.stride(2) == 1 && is_plain(x.g) &&
                  is_plain(x.beta) && is_plain(x.initial_state) && x.offsets.scalar_type() == at::kInt &&
                  x.offsets.is_contiguous() && x.offsets.is_cuda(),
              "gated delta kernels: tensors that were not prepared");
  auto in = kernel_shape(x);
  in.offsets = x.offsets.const_data_ptr<std::int32_t>();
  in.q = head_rows(x.q);
  in.k = head_rows(x.k);
  in.v = head_rows(x.v);
  in.g = floats(x.g);
  in.beta = floats(x.beta);
  in.initial_state = floats(x.initial_state);
  in.scale = static_cast<float>(x.scale);
  return in;
}

at::Tensor scratch_of(std::size_t bytes, const at::Tensor& like) {
  return at::empty({static_cast<std::int64_t>(bytes)}, like.options().dtype(at::kByte));
}

at::Tensor empty_state(const GatedDeltaTensors& x) {
  return at::empty({x.offsets.size(0) - 1, x.v.size(1), x.v.size(2), x.q.size(2)}, x.g.options());
}

cudaStream_t stream_of(const GatedDeltaTensors& x) { return c10::cuda::getCurrentCUDAStream(x.q.device().index()); }

void log_path(GatedDeltaPath path, const GatedDeltaTensors& x) {
  static std::array<std::once_flag, 4> logged;
  std::call_once(logged[static_cast<std::size_t>(path)], [&] {
    log_info("gated delta rule: ", name_of(path), " on ", x.q.device().str(), ", ", x.q.scalar_type(), ", head sizes ",
             x.q.size(2), " and ", x.v.size(2));
  });
}

}  // namespace

GatedDeltaTensors prepared_for(GatedDeltaPath path, const GatedDeltaTensors& x) {
  GatedDeltaTensors y = x;
  y.q = prepared_rows(path, x.q);
  y.k = prepared_rows(path, x.k);
  y.v = prepared_rows(path, x.v);
  y.g = x.g.to(at::kFloat).contiguous();
  y.beta = x.beta.to(at::kFloat).contiguous();
  if (x.initial_state.defined()) {
    y.initial_state = x.initial_state.to(at::kFloat).contiguous();
  }
  return y;
}

bool gated_delta_supports(GatedDeltaPath path, const GatedDeltaTensors& x) {
  if (path == GatedDeltaPath::aten || !has_one_type(x)) {
    return false;
  }
  const auto* device = at::cuda::getDeviceProperties(x.q.device().index());
  return kernels::gated_delta_supports(kernel_path(path), kernel_shape(x), device->major,
                                       static_cast<int>(device->sharedMemPerBlockOptin));
}

GatedDeltaPath gated_delta_path(const GatedDeltaTensors& x) {
  auto path = GatedDeltaPath::aten;
  if (const auto forced = forced_gated_delta_path()) {
    path = *forced;
    HYDRA_REQUIRE(path == GatedDeltaPath::aten || gated_delta_supports(path, x), "gated delta rule: the ",
                  name_of(path), " kernels were asked for, but do not take ", x.q.scalar_type(), " with head sizes ",
                  x.q.size(2), " and ", x.v.size(2), " on this GPU; choose another path or auto");
  } else {
    for (const auto candidate : {GatedDeltaPath::wgmma, GatedDeltaPath::mma, GatedDeltaPath::portable}) {
      if (gated_delta_supports(candidate, x)) {
        path = candidate;
        break;
      }
    }
  }
  log_path(path, x);
  return path;
}

GatedDeltaForwardTensors gated_delta_forward(GatedDeltaPath path, const GatedDeltaTensors& x, bool want_final_state,
                                             bool want_saved) {
  const c10::cuda::CUDAGuard guard(x.q.device());
  kernels::GatedDeltaForward p;
  p.in = kernel_input(x);
  GatedDeltaForwardTensors result;
  result.output = at::empty(x.v.sizes(), x.q.options());
  if (want_final_state) {
    result.final_state = empty_state(x);
  }
  if (want_saved && path != GatedDeltaPath::portable) {
    result.saved = scratch_of(kernels::gated_delta_saved(kernel_path(path), p.in), x.q);
    p.saved = result.saved.mutable_data_ptr();
  }
  const auto scratch = scratch_of(kernels::gated_delta_forward_scratch(kernel_path(path), p.in), x.q);
  p.output = mutable_head_rows(result.output);
  p.final_state = mutable_floats(result.final_state);
  p.scratch = scratch.mutable_data_ptr();
  C10_CUDA_CHECK(kernels::launch_gated_delta_forward(kernel_path(path), p, stream_of(x)));
  return result;
}

GatedDeltaGradients gated_delta_backward(GatedDeltaPath path, const GatedDeltaTensors& x, const at::Tensor& saved,
                                         const at::Tensor& d_output, const at::Tensor& d_final_state) {
  const c10::cuda::CUDAGuard guard(x.q.device());
  HYDRA_CHECK(d_output.scalar_type() == x.q.scalar_type() && d_output.sizes() == x.v.sizes(),
              "gated delta kernels: gradient of the output ", d_output.scalar_type(), d_output.sizes());
  HYDRA_CHECK(saved.defined() == (path != GatedDeltaPath::portable),
              "gated delta kernels: what the forward pass saved");
  const auto d_output_rows = prepared_rows(path, d_output);
  const auto d_state = d_final_state.defined() ? d_final_state.contiguous() : at::Tensor();
  GatedDeltaGradients d;
  d.q = at::empty({x.q.size(0), x.v.size(1), x.q.size(2)}, x.q.options());
  d.k = at::empty_like(d.q);
  d.v = at::empty(x.v.sizes(), x.v.options());
  d.g = at::empty(x.g.sizes(), x.g.options());
  d.beta = at::empty(x.g.sizes(), x.g.options());
  if (x.initial_state.defined()) {
    d.initial_state = empty_state(x);
  }
  kernels::GatedDeltaBackward p;
  p.in = kernel_input(x);
  const auto scratch = scratch_of(kernels::gated_delta_backward_scratch(kernel_path(path), p.in), x.q);
  p.d_output = head_rows(d_output_rows);
  p.d_final_state = floats(d_state);
  p.saved = saved.defined() ? saved.const_data_ptr() : nullptr;
  p.dq = mutable_head_rows(d.q);
  p.dk = mutable_head_rows(d.k);
  p.dv = mutable_head_rows(d.v);
  p.dg = mutable_floats(d.g);
  p.d_beta = mutable_floats(d.beta);
  p.d_initial_state = mutable_floats(d.initial_state);
  p.scratch = scratch.mutable_data_ptr();
  C10_CUDA_CHECK(kernels::launch_gated_delta_backward(kernel_path(path), p, stream_of(x)));
  return d;
}

at::Tensor gated_delta_decode(const GatedDeltaTensors& x, at::Tensor& states, const at::Tensor& state_index) {
  const c10::cuda::CUDAGuard guard(x.q.device());
  HYDRA_CHECK(states.scalar_type() == at::kFloat && states.is_contiguous() && states.dim() == 4 &&
                  states.size(1) == x.v.size(1) && states.size(2) == x.v.size(2) && states.size(3) == x.q.size(2),
              "gated delta decode: states ", states.scalar_type(), states.sizes());
  HYDRA_CHECK(state_index.defined() ? state_index.scalar_type() == at::kInt && state_index.is_contiguous() &&
                                          state_index.size(0) == x.offsets.size(0) - 1
                                    : states.size(0) == x.offsets.size(0) - 1,
              "gated delta decode: ", x.offsets.size(0) - 1, " sequences for states ", states.sizes());
  const auto output = at::empty(x.v.sizes(), x.q.options());
  kernels::GatedDeltaDecode p;
  p.in = kernel_input(x);
  p.output = mutable_head_rows(output);
  p.states = states.mutable_data_ptr<float>();
  p.state_index = state_index.defined() ? state_index.const_data_ptr<std::int32_t>() : nullptr;
  C10_CUDA_CHECK(kernels::launch_gated_delta_decode(p, stream_of(x)));
  return output;
}

}  // namespace hydra::ops
