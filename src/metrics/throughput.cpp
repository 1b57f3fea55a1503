#include "hydrahead/metrics/throughput.hpp"

namespace hydra::metrics {
namespace {

constexpr double chunk = 64;

struct Mixing {
  double forward, backward;  // FLOPs per token of all heads, without projections
};

Mixing mixing_flops(const FlopsShape& model, double context) {
  const double d = model.head_dim;
  const double fa = model.fa_heads * 4 * d * (context + 1) / 2;  // Q K^T and P V
  return {.forward = fa + model.gdn_heads * (8 * chunk * d + 6 * d * d),
          .backward = 2.5 * fa + model.gdn_heads * (20 * chunk * d + 14 * d * d)};  // 5 products against 2
}

double training_flops(const FlopsShape& model, double context) {
  const double parameters = model.attention_parameters + model.mlp_parameters + model.head_parameters;
  const Mixing mixing = mixing_flops(model, context);
  return 6 * parameters + mixing.forward + mixing.backward;
}

}  // namespace

double forward_flops(const FlopsShape& model, double context, bool with_head) {
  const double parameters =
      model.attention_parameters + model.mlp_parameters + (with_head ? model.head_parameters : 0.0);
  return 2 * parameters + mixing_flops(model, context).forward;
}

double align_flops(const FlopsShape& student, const FlopsShape& teacher, double context) {
  // The input is the teacher's, so only the output projection [D, H d] passes a gradient to its input.
  const double output_projection = (student.fa_heads + student.gdn_heads) * student.head_dim * student.hidden;
  const Mixing mixing = mixing_flops(student, context);
  return forward_flops(teacher, context, false) + 4 * student.attention_parameters + 2 * output_projection +
         mixing.forward + mixing.backward;
}

double distill_flops(const FlopsShape& student, const FlopsShape& teacher, double context) {
  return forward_flops(teacher, context, true) + training_flops(student, context);
}

double long_context_flops(const FlopsShape& student, double context) { return training_flops(student, context); }

double model_flops_utilisation(double flops_per_token, double tokens_per_second, double peak_flops, int devices) {
  return peak_flops > 0 ? flops_per_token * tokens_per_second / (peak_flops * devices) : 0.0;
}

}  // namespace hydra::metrics
