// The inference cache's life: made empty, advanced by rows, merged over prompts, thinned as prompts end. The branches
// themselves append to it (fa_branch.cpp, gdn_branch.cpp).

#include "hydrahead/model/decode_state.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

template <class Visit>
void for_each_batched(LayerState& layer, const Visit& visit) {
  for (at::Tensor* tensor : {&layer.gdn, &layer.q_conv, &layer.k_conv, &layer.v_conv}) {
    if (tensor->defined()) {
      visit(*tensor);
    }
  }
}

at::Tensor empty_history(const at::Tensor& weight, std::int64_t sequences, at::ScalarType type) {
  return weight.defined() ? at::zeros({sequences, weight.size(0), weight.size(1) - 1}, weight.options().dtype(type))
                          : at::Tensor();
}

}  // namespace

std::int64_t DecodeState::bytes() const {
  std::int64_t total = 0;
  const auto add = [&](const at::Tensor& tensor) {
    total += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  };
  for (const LayerState& layer : layers) {
    for (const auto& list : {layer.k, layer.v}) {
      for (const at::Tensor& tensor : list) {
        add(tensor);
      }
    }
    for (const at::Tensor& tensor : {layer.gdn, layer.q_conv, layer.k_conv, layer.v_conv}) {
      add(tensor);
    }
  }
  return total;
}

DecodeState make_decode_state(const Model& model, std::int64_t sequences, StateType type) {
  DecodeState state;
  state.length.assign(sequences, 0);
  state.layers.resize(model.layers.size());
  const std::int64_t d = model.config.base.head_dim;
  const at::ScalarType state_type = model.compute_type == at::kDouble ? at::kDouble
                                    : type == StateType::fp32         ? at::kFloat
                                                                      : at::kBFloat16;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerState& layer = state.layers[i];
    layer.k.resize(sequences);
    layer.v.resize(sequences);
    if (!model.is_hybrid()) {
      continue;
    }
    const auto gdn_heads = static_cast<std::int64_t>(model.config.plan->layers[i].gdn_heads.size());
    if (gdn_heads > 0) {
      const GdnBranch& gdn = model.layers[i].hybrid.gdn;
      layer.gdn = at::zeros({sequences, gdn_heads, d, d}, model.embed.options().dtype(state_type));
      layer.q_conv = empty_history(gdn.q_conv, sequences, model.compute_type);
      layer.k_conv = empty_history(gdn.k_conv, sequences, model.compute_type);
      layer.v_conv = empty_history(gdn.v_conv, sequences, model.compute_type);
    }
  }
  return state;
}

at::Tensor advance(const Model& model, DecodeState& state, const at::Tensor& ids,
                   const std::vector<std::int64_t>& lengths, bool log_scale) {
  HYDRA_CHECK(lengths.size() == state.length.size(), lengths.size(), " lengths for ", state.length.size(),
              " sequences");
  const c10::NoGradGuard no_grad;
  const ops::Sequences sequences = ops::make_sequences(lengths, ids.device(), state.length);
  HYDRA_CHECK(sequences.count() == static_cast<std::int64_t>(lengths.size()), "a sequence without new rows");
  ForwardOptions options;
  options.log_scale = log_scale;
  options.state = &state;
  options.last_rows = true;
  const at::Tensor hidden = forward_hidden(model, ids, sequences, options);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    state.length[s] += lengths[s];
  }
  return hidden;
}

DecodeState merge_states(std::vector<DecodeState> parts) {
  HYDRA_CHECK(!parts.empty(), "nothing to merge");
  DecodeState merged = std::move(parts.front());
  if (parts.size() == 1) {
    return merged;
  }
  for (std::size_t p = 1; p < parts.size(); ++p) {
    merged.length.insert(merged.length.end(), parts[p].length.begin(), parts[p].length.end());
  }
  for (std::size_t i = 0; i < merged.layers.size(); ++i) {
    LayerState& layer = merged.layers[i];
    for (std::size_t p = 1; p < parts.size(); ++p) {
      LayerState& other = parts[p].layers[i];
      std::move(other.k.begin(), other.k.end(), std::back_inserter(layer.k));
      std::move(other.v.begin(), other.v.end(), std::back_inserter(layer.v));
    }
    const auto join = [&](at::Tensor LayerState::*field) {
      if (!(layer.*field).defined()) {
        return;
      }
      std::vector<at::Tensor> tensors{layer.*field};
      for (std::size_t p = 1; p < parts.size(); ++p) {
        tensors.push_back(parts[p].layers[i].*field);
      }
      layer.*field = at::cat(tensors);
    };
    join(&LayerState::gdn);
    join(&LayerState::q_conv);
    join(&LayerState::k_conv);
    join(&LayerState::v_conv);
  }
  return merged;
}

void keep_sequences(DecodeState& state, const std::vector<std::int64_t>& kept) {
  if (kept.size() == state.length.size()) {
    return;
  }
  std::vector<std::int64_t> length;
  for (const std::int64_t s : kept) {
    length.push_back(state.length[s]);
  }
  state.length = std::move(length);
  for (LayerState& layer : state.layers) {
    for (auto* list : {&layer.k, &layer.v}) {
      std::vector<at::Tensor> tensors;
      for (const std::int64_t s : kept) {
        tensors.push_back(std::move((*list)[s]));
      }
      *list = std::move(tensors);
    }
    for_each_batched(layer, [&](at::Tensor& tensor) {
      tensor = tensor.index_select(0, at::tensor(kept, at::kLong).to(tensor.device()));
    });
  }
}

}  // namespace hydra::model
