// Causal softmax attention over flat rows (method.md 4.1). Back ends:
//   equal lengths  one SDPA call on [S, H, T, d]; on CUDA it takes cuDNN first, 1.7-2.3x faster than flash
//   (engineering.md A4) CUDA, 16 bit   one call of flash attention with int32 sequence offsets (attention_varlen.cpp)
//   otherwise      one SDPA call for each distinct length, over the sequences of that length
// A sequence is a batch entry of its own everywhere, so a NaN stays in its sequence.
#include "hydrahead/ops/attention.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <mutex>
#include <numeric>

#include "attention_varlen.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "index_tensor.hpp"

namespace hydra::ops {
namespace {

bool is_identity(const std::vector<std::int64_t>& kv_index, std::int64_t kv_heads) {
  for (std::size_t h = 0; h < kv_index.size(); ++h) {
    if (kv_index[h] != static_cast<std::int64_t>(h)) {
      return false;
    }
  }
  return static_cast<std::int64_t>(kv_index.size()) == kv_heads;
}

// Whether query head h reads KV head h / (Hq / Hkv).
bool is_grouped(const std::vector<std::int64_t>& kv_index, std::int64_t kv_heads) {
  const auto heads = static_cast<std::int64_t>(kv_index.size());
  if (heads % kv_heads != 0) {
    return false;
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    if (kv_index[static_cast<std::size_t>(h)] != h / (heads / kv_heads)) {
      return false;
    }
  }
  return true;
}

// k or v with one head a query head, or as it is where the kernels read shared heads in place: 16-bit types on CUDA
// (the fp32 kernel that takes shared heads forms [T, T] scores).
at::Tensor expand_heads(const at::Tensor& x, const std::vector<std::int64_t>& kv_index) {
  const bool shares_heads = x.is_cuda() && x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble;
  if (is_identity(kv_index, x.size(1)) || (shares_heads && is_grouped(kv_index, x.size(1)))) {
    return x;
  }
  return x.index_select(1, index_tensor(kv_index, x.device()));
}

// q [S T, Hq, d] of S sequences of equal length -> [S T, Hq, d].
at::Tensor equal_lengths(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                         std::int64_t count) {
  const auto batched = [count](const at::Tensor& x) {
    return x.reshape({count, x.size(0) / count, x.size(1), x.size(2)}).transpose(1, 2);
  };
  const auto out = at::scaled_dot_product_attention(batched(q), batched(k), batched(v), /*attn_mask=*/{},
                                                    /*dropout_p=*/0.0, /*is_causal=*/true, scale,
                                                    /*enable_gqa=*/q.size(1) != k.size(1));
  return out.transpose(1, 2).reshape(q.sizes());
}

// The sequences of each distinct length as one batch.
at::Tensor by_length(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const Sequences& sequences) {
  std::map<std::int64_t, std::vector<std::int64_t>> groups;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    groups[sequences.length(s)].push_back(s);
  }
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(sequences.rows()));
  std::vector<at::Tensor> outputs;
  for (const auto& [length, members] : groups) {
    const auto begin = order.size();
    for (const auto s : members) {
      for (std::int64_t i = 0; i < length; ++i) {
        order.push_back(sequences.offsets[s] + i);
      }
    }
    const auto rows = index_tensor(at::IntArrayRef(order).slice(begin), q.device());
    outputs.push_back(equal_lengths(q.index_select(0, rows), k.index_select(0, rows), v.index_select(0, rows), scale,
                                    static_cast<std::int64_t>(members.size())));
  }
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return at::cat(outputs).index_select(0, index_tensor(inverse, q.device()));
}

void log_back_end(const at::Tensor& q, const char* name) {
  static std::once_flag cpu, cuda;
  std::call_once(q.is_cuda() ? cuda : cpu, [&] {
    log_info("attention: ", name, " on ", q.device().str(), ", ", q.scalar_type(), ", head size ", q.size(2));
  });
}

void check_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::vector<std::int64_t>& kv_index) {
  HYDRA_CHECK(q.dim() == 3 && k.dim() == 3 && v.sizes() == k.sizes() && q.size(2) == k.size(2), "attention: q ",
              q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  HYDRA_CHECK(q.size(0) > 0, "attention over no rows");
  HYDRA_CHECK(static_cast<std::int64_t>(kv_index.size()) == q.size(1), "attention: ", kv_index.size(),
              " entries of kv_index for ", q.size(1), " heads");
  for (const auto index : kv_index) {
    HYDRA_CHECK(index >= 0 && index < k.size(1), "attention: KV head ", index, " of ", k.size(1));
  }
}

// Softmax attention of q [H, n, d] over k and v [H, T, d], and its log-sum-exp [H, n].
std::pair<at::Tensor, at::Tensor> attend_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                                             double scale) {
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(q.unsqueeze(0), k.unsqueeze(0),
                                                                          v.unsqueeze(0), 0.0, causal, {}, scale);
  return {out.squeeze(0), lse.squeeze(0)};
}

// The last n rows of one sequence over its T keys: the earlier keys without a mask, the own rows causally, merged by
// their log-sum-exp. No mask is formed.
at::Tensor cached_attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  const auto n = q.size(1);
  const auto past = k.size(1) - n;
  if (n == 1) {
    return attend_cpu(q, k, v, false, scale).first;
  }
  const auto [own, own_lse] = attend_cpu(q, k.narrow(1, past, n), v.narrow(1, past, n), true, scale);
  if (past == 0) {
    return own;
  }
  const auto [before, before_lse] = attend_cpu(q, k.narrow(1, 0, past), v.narrow(1, 0, past), false, scale);
  const auto share = at::sigmoid(before_lse - own_lse).unsqueeze(-1);  // weight of the earlier keys
  return at::lerp(own, before, share.to(own.scalar_type()));
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k_in, const at::Tensor& v_in,
                            const std::vector<std::int64_t>& kv_index, double scale, const Sequences& sequences) {
  check_shapes(q, k_in, v_in, kv_index);
  HYDRA_CHECK(q.size(0) == sequences.rows() && k_in.size(0) == q.size(0), "attention: q ", q.sizes(), ", k ",
              k_in.sizes(), ", ", sequences.rows(), " rows");
  const auto k = expand_heads(k_in, kv_index);
  const auto v = expand_heads(v_in, kv_index);
  if (sequences.rows() == sequences.count() * sequences.max_length) {
    log_back_end(q, "SDPA");
    return equal_lengths(q, k, v, scale, sequences.count());
  }
  if (varlen_attention_supports(q)) {
    log_back_end(q, "flash attention over sequence offsets");
    return varlen_attention(q, k, v, scale, sequences);
  }
  log_back_end(q, "SDPA, one call a length");
  return by_length(q, k, v, scale, sequences);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k_in, const at::Tensor& v_in,
                            const std::vector<std::int64_t>& kv_index, double scale) {
  const at::NoGradGuard no_grad;
  check_shapes(q, k_in, v_in, kv_index);
  HYDRA_CHECK(k_in.size(0) >= q.size(0), "attention: ", q.size(0), " queries over ", k_in.size(0), " keys");
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(0, 1); };
  if (q.is_cpu() && q.size(0) == 1 && is_grouped(kv_index, k_in.size(1))) {
    // One row: the queries of a group are its rows over the keys that they share, which are read in place.
    const auto groups = q.view({k_in.size(1), -1, q.size(2)});
    return attend_cpu(groups, heads_first(k_in), heads_first(v_in), /*causal=*/false, scale).first.view(q.sizes());
  }
  const auto k = expand_heads(k_in, kv_index);
  const auto v = expand_heads(v_in, kv_index);
  if (q.is_cpu()) {
    return heads_first(cached_attention_cpu(heads_first(q), heads_first(k), heads_first(v), scale));
  }
  if (varlen_attention_supports(q)) {
    return varlen_cached_attention(q, k, v, scale);
  }
  // fp32 on CUDA: a mask of [n, T] for the one call; serves tests, the product decodes in bf16.
  const auto n = q.size(0);
  const auto total = k.size(0);
  const auto mask = at::ones({n, total}, q.options().dtype(at::kBool)).tril(total - n);
  const auto out = at::scaled_dot_product_attention(heads_first(q).unsqueeze(0), heads_first(k).unsqueeze(0),
                                                    heads_first(v).unsqueeze(0), mask, 0.0, false, scale,
                                                    /*enable_gqa=*/q.size(1) != k.size(1));
  return heads_first(out.squeeze(0));
}

}  // namespace hydra::ops
