#include "hydrahead/train/stage_config.hpp"

#include <cstdlib>

namespace hydra::train {

std::int64_t StageSchedule::total_steps() const {
  return steps ? *steps : (tokens.value_or(0) + tokens_per_step() - 1) / tokens_per_step();
}

// The keys that all stages have; they stand directly in the stage's section.
void describe(config::Binder& binder, StageSchedule& value) {
  binder.token_count("tokens", value.tokens,
                     {.text = "Training text of the stage; rounded up to whole steps.", .unit = "tokens", .min = 1});
  binder.field("steps", value.steps, {.text = "Optimizer steps, in place of tokens.", .unit = "steps", .min = 1});
  binder.field("context", value.context, {.text = "Tokens a row.", .unit = "tokens", .min = 2, .max = 1 << 24});
  binder.field("global_batch", value.global_batch,
               {.text = "Rows a step, over all ranks.", .unit = "rows", .min = 1, .max = 1 << 20});
  binder.integer_or_word("micro_batch", value.micro_batch, {{kAutoMicroBatch, "auto"}},
                         {.text = "Rows a forward pass on one rank; auto: as the memory estimate allows.",
                          .unit = "rows",
                          .min = 1,
                          .max = 1 << 20});
  binder.section("lr", value.lr, "Learning rate.");
  binder.choice("packing", value.packing, {{data::Packing::reset, "reset"}, {data::Packing::eos_join, "eos_join"}},
                {"Overrides data.packing."});
  binder.field("validate_every", value.validate_every,
               {.text = "Overrides data.validation.every.", .unit = "steps", .min = 1});
  binder.field("checkpoint_every", value.checkpoint_every,
               {.text = "Overrides checkpoint.every.", .unit = "steps", .min = 1});
  binder.require(value.tokens || value.steps, "tokens", "expected `tokens` or `steps`");
  if (value.tokens && value.steps) {
    const std::int64_t planned = *value.steps * value.tokens_per_step();
    binder.require(std::abs(*value.tokens - planned) < value.tokens_per_step(), "tokens",
                   "found " + std::to_string(*value.tokens) +
                       ", expected to agree with steps * global_batch * context = " + std::to_string(planned));
  }
}

void describe(config::Binder& binder, AlignStage& value) {
  describe(binder, value.schedule);
  binder.choice("target", value.options.target, {{AlignTarget::sublayer, "sublayer"}, {AlignTarget::layer, "layer"}},
                {"What is matched to the teacher: the attention sublayer's output or the whole layer's."});
  binder.choice("input", value.options.input, {{AlignInput::teacher, "teacher"}, {AlignInput::student, "student"}},
                {"Whose hidden states each layer reads."});
}

static void describe_memory(config::Binder& binder, std::int64_t& loss_chunk, bool& recompute) {
  binder.field("loss_chunk", loss_chunk,
               {.text = "Rows whose logits exist at one time.", .unit = "rows", .min = 1, .max = 1 << 20});
  binder.field("recompute", recompute,
               {"Compute each layer again in the backward pass instead of keeping its activations."});
}

void describe(config::Binder& binder, DistillStage& value) {
  describe(binder, value.schedule);
  binder.field("kl_weight", value.kl_weight, {.text = "Weight of KL(teacher to student).", .min = 0});
  binder.field("ce_weight", value.ce_weight, {.text = "Weight of the next-token cross-entropy.", .min = 0});
  binder.require(value.kl_weight > 0 || value.ce_weight > 0, "kl_weight", "kl_weight and ce_weight are both 0");
  binder.field("temperature", value.temperature,
               {.text = "Of both softmaxes in the KL term.", .min = 0.01, .max = 100});
  binder.choice("vocab", value.vocab, {{DistillVocab::full, "full"}, {DistillVocab::real, "real"}},
                {"Rows of the head that the losses see: all, or the tokenizer's ids only."});
  describe_memory(binder, value.loss_chunk, value.recompute);
  binder.no_effect("temperature", value.kl_weight == 0, "kl_weight is 0");
}

void describe(config::Binder& binder, LongContextStage& value) {
  describe(binder, value.schedule);
  describe_memory(binder, value.loss_chunk, value.recompute);
}

void describe(config::Binder& binder, StagesConfig& value) {
  binder.optional_section(
      "align", value.align,
      "Stage 1: every layer learns the teacher's attention output; only the hybrid attention is trained.");
  binder.optional_section("distill", value.distill,
                          "Stage 2: KL to the teacher and cross-entropy; everything is trained.");
  binder.optional_section("long_context", value.long_context,
                          "Stage 3: next-token cross-entropy on long rows; everything is trained.");
}

}  // namespace hydra::train
