#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/select/scorers.hpp"

namespace hydra::select {
namespace {

// The key that each head attends to most from each readout row: [A, H].
at::Tensor top_keys(const model::Model& teacher, const CapturedRun& run, std::int64_t layer, const at::Tensor& rows) {
  const model::Qwen3Config& config = teacher.config.base;
  const model::TeacherAttention& weights = teacher.layers[layer].teacher;
  const at::Tensor x = ops::rms_norm(run.hidden[layer], teacher.layers[layer].input_norm, config.rms_norm_eps);
  const auto heads = [&](const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                         const at::Tensor& norm, const at::Tensor& positions) {
    const at::Tensor flat = ops::linear(input, weight, bias).view({input.size(0), -1, config.head_dim});
    return ops::norm_rotate(flat, norm, run.tables.cos.index_select(0, positions),
                            run.tables.sin.index_select(0, positions), config.rms_norm_eps);
  };
  const at::Tensor all = at::arange(x.size(0), rows.options());
  const at::Tensor q = heads(x.index_select(0, rows), weights.q, weights.q_bias, weights.q_norm, rows);
  const at::Tensor k = heads(x, weights.k, weights.k_bias, weights.k_norm, all);
  const at::Tensor grouped = q.view({q.size(0), config.kv_heads, config.group_size(), config.head_dim});
  const at::Tensor scores = at::einsum("akgd,tkd->akgt", {grouped, k}).flatten(1, 2);  // [A, H, T]
  return scores.masked_fill((all > rows.unsqueeze(1)).unsqueeze(1), -INFINITY).argmax(-1);
}

}  // namespace

at::Tensor retrieval_score(const model::Model& teacher, const CapturedRun& clean, const Readout& readout,
                           const std::vector<std::int64_t>& sources) {
  const c10::NoGradGuard no_grad;
  HYDRA_CHECK(static_cast<std::int64_t>(sources.size()) == readout.rows.size(0), sources.size(),
              " places of answer tokens for ", readout.rows.size(0), " rows");
  const at::Tensor last = clean.hidden.back().index_select(0, readout.rows);
  const at::Tensor said =
      model::logits_of(teacher, ops::rms_norm(last, teacher.norm, teacher.config.base.rms_norm_eps)).argmax(-1);
  const at::Tensor right = said.eq(readout.answer).unsqueeze(1);  // [A, 1]
  // Which keys count for a row: those in the answer's place with the row's token, which may stand there repeatedly.
  const at::Tensor places = at::tensor(sources, at::kLong).to(readout.rows.device());
  const at::Tensor same = readout.answer.unsqueeze(1).eq(readout.answer).to(at::kFloat);  // [A, A]
  const at::Tensor counts =  // a place may stand for several tokens, where the prompt cuts the answer differently
      at::zeros({readout.rows.size(0), clean.sequences.rows()}, same.options()).index_add_(1, places, same).gt(0);
  std::vector<at::Tensor> scores;
  for (std::int64_t layer = 0; layer < teacher.config.base.layers; ++layer) {
    const at::Tensor copied = counts.gather(1, top_keys(teacher, clean, layer, readout.rows)).logical_and(right);
    scores.push_back(copied.to(at::kDouble).mean(0));
  }
  return at::stack(scores).to(at::kCPU);
}

}  // namespace hydra::select
