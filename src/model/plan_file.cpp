// heads.yaml: the explicit list of full-attention heads a layer that every rule writes out.

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/model/head_plan.hpp"

namespace hydra::model {
namespace {

struct PlanFile {
  std::int64_t version = 0;
  std::string teacher_sha256, rule;
  std::int64_t seed = 0;
  std::vector<std::vector<std::int64_t>> heads;
};

void describe(config::Binder& binder, PlanFile& value) {
  binder.field("version", value.version, {.text = "Format of this file.", .min = 1, .max = 1});
  binder.field("teacher_sha256", value.teacher_sha256, {"Hash of the teacher's config and weights; empty: any."});
  binder.field("rule", value.rule, {"The rule that made the plan."});
  binder.field("seed", value.seed, {"The seed it was made with."});
  binder.field("heads", value.heads, {"The full-attention heads of each layer, by their indices in the teacher."});
}

}  // namespace

HeadPlan read_plan(const std::filesystem::path& file, const Qwen3Config& config, const std::string& teacher_sha256) {
  PlanFile content;
  config::read_yaml(file, {}, [&](config::Binder& binder) { describe(binder, content); });
  HYDRA_REQUIRE(content.version == 1, file.string(), ": version: found nothing, expected 1");
  HYDRA_REQUIRE(teacher_sha256.empty() || content.teacher_sha256.empty() || content.teacher_sha256 == teacher_sha256,
                file.string(), ": teacher_sha256: found ", content.teacher_sha256, ", expected that of this teacher, ",
                teacher_sha256);
  HeadPlan plan = make_plan(config, content.heads, file.string() + ": heads");
  plan.teacher_sha256 = content.teacher_sha256;
  plan.rule = content.rule;
  plan.seed = content.seed;
  return plan;
}

std::string plan_text(const HeadPlan& plan) {
  PlanFile content{
      .version = 1, .teacher_sha256 = plan.teacher_sha256, .rule = plan.rule, .seed = plan.seed, .heads = {}};
  for (const LayerPlan& layer : plan.layers) {
    content.heads.push_back(layer.fa_heads);
  }
  return config::write_yaml([&](config::Binder& binder) { describe(binder, content); });
}

void write_plan(const std::filesystem::path& file, const HeadPlan& plan) { write_file_atomic(file, plan_text(plan)); }

}  // namespace hydra::model
