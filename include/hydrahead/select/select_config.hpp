#pragma once
// The config section `select`: how heads are scored (method.md section 3).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/config/binder.hpp"
#include "hydrahead/data/niah.hpp"
#include "hydrahead/select/knockout_config.hpp"

namespace hydra::select {

enum class Method { interp, attribution, retrieval_score, ablation_zero, ablation_mean };
std::string method_name(Method method);
enum class Direction { noising, denoising };
enum class Metric { logit_diff, prob };
enum class SenderPath { q, k, v };
enum class GeneralProbes { builtin, none };

// w_c of Eq. 12, by capability.
struct CapabilityWeights {
  double single = 1, multi = 1, general = 1;
};
void describe(config::Binder& binder, CapabilityWeights& value);

struct SelectConfig {
  Method method = Method::interp;
  std::vector<data::NiahTask> probes = {data::NiahTask::single_1, data::NiahTask::single_2, data::NiahTask::single_3,
                                        data::NiahTask::multikey_1, data::NiahTask::multikey_2};
  std::int64_t context = 4096;
  std::int64_t pairs = 8;   // counterfactual pairs a probe
  double min_margin = 0.5;  // pairs with a smaller m(x) - m(x') are dropped
  double min_kept = 0.5;    // share of its pairs that a probe must keep, or it is left out
  double decay = 0.9;       // lambda of Eq. 9
  double threshold = 0.01;  // of IE: receivers, and kappa
  Direction direction = Direction::noising;
  Metric metric = Metric::logit_diff;
  std::vector<SenderPath> sender_paths = {SenderPath::q, SenderPath::k, SenderPath::v};
  std::int64_t sender_rounds = 2;
  GeneralProbes general = GeneralProbes::builtin;  // third capability
  std::filesystem::path general_file;              // JSONL rows of the user's own for it
  CapabilityWeights weights;
  KnockoutConfig knockout;
};
void describe(config::Binder& binder, SelectConfig& value);

}  // namespace hydra::select
