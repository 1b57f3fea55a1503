// The chunked gated delta rule as one autograd Function (kernels.md sections 1 and 6). Work goes block by block of
// chunks, so that the workspace is bounded at any length. A short call (one block) keeps the block's intermediates for
// the backward pass; a long one keeps its inputs and the state at each block's start, and forms the rest again.
#include "hydrahead/ops/gated_delta.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "gated_delta_blocks.hpp"
#include "gated_delta_chunked.hpp"
#include "gated_delta_layout.hpp"
#include "hydrahead/base/error.hpp"
#include "precision.hpp"

namespace hydra::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

BlockInput pack_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                       const at::Tensor& beta, const ChunkLayout& layout, const ChunkBlock& block) {
  const auto type = statistics_type(q);
  const auto repeat = v.size(1) / q.size(1);
  return {.q = pack_rows(q, layout, block, type, repeat),
          .k = pack_rows(k, layout, block, type, repeat),
          .v = pack_rows(v, layout, block, type),
          .g = pack_rows(g.unsqueeze(2), layout, block, type),
          .beta = pack_rows(beta.unsqueeze(2), layout, block, type)};
}

// States [S, H, V, K] in the caller's order <-> [S H, V, K] in the layout's order.
at::Tensor ordered_states(const at::Tensor& states, const ChunkLayout& layout) {
  const auto picked =
      layout.ordered ? states.clone(at::MemoryFormat::Contiguous) : states.index_select(0, layout.order);
  return picked.view({-1, states.size(2), states.size(3)});
}
at::Tensor restored_states(const at::Tensor& ordered, const ChunkLayout& layout) {
  const auto states = ordered.view({layout.sequence_count, -1, ordered.size(1), ordered.size(2)});
  return layout.ordered ? states : at::empty_like(states).index_copy_(0, layout.order, states);
}

variable_list to_list(const BlockInput& x, const BlockForward& f) {
  return {x.q, x.k, x.v, x.g, x.beta, f.gamma, f.rest, f.decay, f.inverse, f.kk, f.p, f.mask, f.w, f.u, f.states};
}
std::pair<BlockInput, BlockForward> from_list(const variable_list& t, std::size_t first) {
  const auto at = [&](std::size_t i) { return t[first + i]; };
  return {{at(0), at(1), at(2), at(3), at(4)},
          {at(5), at(6), at(7), at(8), at(9), at(10), at(11), at(12), at(13), at(14)}};
}

constexpr std::size_t kInputs = 6;  // q, k, v, g, beta, initial_state

class GatedDelta : public torch::autograd::Function<GatedDelta> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& g, const at::Tensor& beta,
                               const std::optional<at::Tensor>& optional_state, double scale,
                               const c10::intrusive_ptr<ChunkLayout>& layout, bool want_final_state, bool graph) {
    const auto initial_state = tensor_or_undefined(optional_state);
    const auto heads = v.size(1);
    const auto options = v.options().dtype(statistics_type(q));
    auto running = initial_state.defined() ? ordered_states(initial_state.to(options.dtype()), *layout)
                                           : at::zeros({layout->sequence_count * heads, v.size(2), q.size(2)}, options);
    auto output = at::empty(v.sizes(), v.options().dtype(q.scalar_type()));
    const bool keep = graph && layout->blocks.size() == 1;
    variable_list saved{q, k, v, g, beta, initial_state};
    for (const auto& block : layout->blocks) {
      if (graph && !keep) {
        saved.push_back(running.clone());
      }
      const auto x = pack_inputs(q, k, v, g, beta, *layout, block);
      const auto f = block_forward(x, scale, *layout, block, running);
      unpack_rows(block_output(x, f, scale), output, *layout, block);
      if (keep) {
        const auto list = to_list(x, f);
        saved.insert(saved.end(), list.begin(), list.end());
      }
    }
    if (graph) {
      ctx->save_for_backward(saved);
      ctx->saved_data["scale"] = scale;
      ctx->saved_data["layout"] = c10::IValue::make_capsule(layout);
      ctx->set_materialize_grads(false);
    }
    if (!want_final_state) {
      return {output};
    }
    return {output, restored_states(running, *layout)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto layout = c10::static_intrusive_pointer_cast<ChunkLayout>(ctx->saved_data["layout"].toCapsule());
    const auto scale = ctx->saved_data["scale"].toDouble();
    const auto saved = ctx->get_saved_variables();
    const auto& q = saved[0];
    const auto& k = saved[1];
    const auto& v = saved[2];
    const auto& g = saved[3];
    const auto& beta = saved[4];
    const auto& initial_state = saved[5];
    const auto type = statistics_type(q);
    const auto options = v.options().dtype(type);
    const bool kept = layout->blocks.size() == 1;
    const auto d_output = gradients[0].defined() ? gradients[0] : at::zeros(v.sizes(), options);
    auto d_running = gradients.size() > 1 && gradients[1].defined()
                         ? ordered_states(gradients[1], *layout)
                         : at::zeros({layout->sequence_count * v.size(1), v.size(2), q.size(2)}, options);
    const bool shared = q.size(1) != v.size(1);
    auto dq = at::empty({q.size(0), v.size(1), q.size(2)}, shared ? options : q.options());
    auto dk = at::empty_like(dq);
    auto dv = at::empty(v.sizes(), v.options());
    auto dg = at::empty(g.sizes(), g.options()).unsqueeze_(2);
    auto dbeta = at::empty(beta.sizes(), beta.options()).unsqueeze_(2);
    for (std::size_t i = layout->blocks.size(); i-- > 0;) {
      const auto& block = layout->blocks[i];
      BlockInput x;
      BlockForward f;
      if (kept) {
        std::tie(x, f) = from_list(saved, kInputs);
      } else {
        auto running = saved[kInputs + i].clone();
        x = pack_inputs(q, k, v, g, beta, *layout, block);
        f = block_forward(x, scale, *layout, block, running);
      }
      const auto d = block_backward(x, f, pack_rows(d_output, *layout, block, type), scale, *layout, block, d_running);
      unpack_rows(d.q, dq, *layout, block);
      unpack_rows(d.k, dk, *layout, block);
      unpack_rows(d.v, dv, *layout, block);
      unpack_rows(d.g, dg, *layout, block);
      unpack_rows(d.beta, dbeta, *layout, block);
    }
    variable_list result(10);
    result[0] = sum_shared_heads(dq, q);
    result[1] = sum_shared_heads(dk, k);
    result[2] = dv;
    result[3] = dg.squeeze(2);
    result[4] = dbeta.squeeze(2);
    if (initial_state.defined()) {
      result[5] = restored_states(d_running, *layout).to(initial_state.scalar_type());
    }
    return result;
  }
};

}  // namespace

at::Tensor sum_shared_heads(const at::Tensor& d, const at::Tensor& like) {
  const auto sum = d.size(1) == like.size(1)
                       ? d
                       : d.view({d.size(0), like.size(1), -1, d.size(2)}).sum(2, false, statistics_type(d));
  return sum.to(like.scalar_type());
}

void check_gated_delta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                       const at::Tensor& beta, const Sequences& sequences, const at::Tensor& initial_state) {
  HYDRA_CHECK(
      q.dim() == 3 && k.sizes() == q.sizes() && v.dim() == 3 && v.size(0) == q.size(0) && v.size(1) % q.size(1) == 0,
      "gated delta: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  HYDRA_CHECK(g.sizes() == at::IntArrayRef({v.size(0), v.size(1)}) && beta.sizes() == g.sizes(), "gated delta: g ",
              g.sizes(), ", beta ", beta.sizes(), " for v ", v.sizes());
  HYDRA_CHECK(q.size(0) == sequences.rows() && q.size(0) > 0, "gated delta: ", q.size(0), " rows, the sequences have ",
              sequences.rows());
  HYDRA_CHECK(!initial_state.defined() ||
                  initial_state.sizes() == at::IntArrayRef({sequences.count(), v.size(1), v.size(2), q.size(2)}),
              "gated delta: initial state ", initial_state.sizes(), "; expected [S, H, V, K] = [", sequences.count(),
              ", ", v.size(1), ", ", v.size(2), ", ", q.size(2), "]");
}

std::int64_t default_block_chunks(std::int64_t heads, std::int64_t k_size, std::int64_t v_size, std::int64_t element) {
  // Packed q, k, v, w, u and their gradients, the C x C arrays, and the states of one chunk and head.
  const auto bytes = element * (kChunk * (6 * k_size + 6 * v_size) + 8 * kChunk * kChunk + 2 * k_size * v_size);
  return std::max<std::int64_t>(1, kBlockBytes / (bytes * heads));
}

GatedDeltaOutput gated_delta_in_blocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const at::Tensor& g, const at::Tensor& beta, double scale,
                                       const Sequences& sequences, const at::Tensor& initial_state,
                                       bool want_final_state, std::int64_t block_chunks) {
  check_gated_delta(q, k, v, g, beta, sequences, initial_state);
  const auto layout = make_chunk_layout(sequences, q.device(), block_chunks);
  bool graph = false;
  for (const auto& x : {q, k, v, g, beta, initial_state}) {
    graph = graph || (x.defined() && x.requires_grad());
  }
  const auto outputs = GatedDelta::apply(q, k, v, g, beta, optional_tensor(initial_state), scale, layout,
                                         want_final_state, graph && at::GradMode::is_enabled());
  return {outputs[0], want_final_state ? outputs[1] : at::Tensor()};
}

GatedDeltaOutput gated_delta_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
                                  const at::Tensor& beta, double scale, const Sequences& sequences,
                                  const at::Tensor& initial_state, bool want_final_state) {
  const auto element = statistics_type(q) == at::kDouble ? 8 : 4;
  return gated_delta_in_blocks(q, k, v, g, beta, scale, sequences, initial_state, want_final_state,
                               default_block_chunks(v.size(1), q.size(2), v.size(2), element));
}

}  // namespace hydra::ops
