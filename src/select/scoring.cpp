#include "hydrahead/select/scoring.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "hydrahead/select/scorers.hpp"
#include "pair_store.hpp"

namespace hydra::select {
namespace {

using data::CounterfactualPair;

double margin_of(const model::Model& teacher, const CapturedRun& run, const Readout& readout) {
  return margin(teacher, readout, run.hidden.back().index_select(0, readout.rows)).item<double>();
}

Readout readout_of(const CounterfactualPair& pair, const SelectConfig& config, const at::Device& device) {
  return make_readout(pair, config.decay, config.metric, device);
}

PairEffects score_pair(const model::Model& teacher, const CounterfactualPair& pair, const SelectConfig& config) {
  const Readout readout = readout_of(pair, config, teacher.embed.device());
  const CapturedRun clean = capture_run(teacher, pair.clean), corrupt = capture_run(teacher, pair.corrupt);
  PairEffects effects{.clean = margin_of(teacher, clean, readout),
                      .corrupt = margin_of(teacher, corrupt, readout),
                      .kept = false,
                      .receive = {},
                      .attribution = {},
                      .changes = {}};
  if (!std::isfinite(effects.clean) || !std::isfinite(effects.corrupt)) {
    throw Error(detail::concat("select: ", pair.id, ": the readout is not finite"));
  }
  const bool copied = config.method != Method::retrieval_score || !pair.sources.empty();
  effects.kept = copied && effects.clean > effects.corrupt && effects.clean - effects.corrupt >= config.min_margin;
  if (!effects.kept) {
    return effects;
  }
  const PatchedPair noising{clean, corrupt, readout, effects.clean, effects.corrupt};
  const PatchedPair denoising{corrupt, clean, readout, effects.corrupt, effects.clean};
  const PatchedPair& patched = config.direction == Direction::noising ? noising : denoising;
  effects.attribution = attribution(teacher, patched);
  switch (config.method) {
    case Method::interp:
      effects.receive = receiver_effects(teacher, patched);
      if (config.sender_rounds > 0 && teacher.config.base.layers > 1) {
        effects.changes = sender_changes(teacher, patched, config.sender_paths);
      }
      break;
    case Method::attribution: effects.receive = effects.attribution; break;
    case Method::retrieval_score: effects.receive = retrieval_score(teacher, clean, readout, pair.sources); break;
    case Method::ablation_zero: effects.receive = ablation(teacher, noising, Ablation::zero); break;
    case Method::ablation_mean: effects.receive = ablation(teacher, noising, Ablation::mean); break;
  }
  return effects;
}

// The pairs of one probe, which stand together.
struct Probe {
  std::string name, capability;
  std::vector<std::int64_t> pairs;  // kept ones
  std::int64_t dropped = 0;
};

class Scoring {
 public:
  Scoring(const model::Model& teacher, const std::vector<CounterfactualPair>& pairs, const SelectConfig& config,
          const PairStore& store, dist::Communicator& communicator)
      : teacher_(teacher), pairs_(pairs), config_(config), store_(store), communicator_(communicator) {}

  std::vector<ProbeEffects> run() {
    score_missing();
    gather();
    at::Tensor sent;
    if (config_.method == Method::interp && config_.sender_rounds > 0 && teacher_.config.base.layers > 1) {
      sent = send();
    }
    std::vector<ProbeEffects> results;
    for (const Probe& probe : probes_) {
      ProbeEffects result{.probe = probe.name,
                          .capability = probe.capability,
                          .pairs = static_cast<std::int64_t>(probe.pairs.size()),
                          .dropped = probe.dropped,
                          .receive = mean(receive_.clamp(0, 1), probe),
                          .send = {},
                          .receive_raw = mean(receive_, probe),
                          .send_raw = {},
                          .attribution = mean(attribution_, probe),
                          .pair_ids = {},
                          .pair_receive = of_pairs(receive_, probe),
                          .pair_send = {}};
      for (const std::int64_t i : probe.pairs) {
        result.pair_ids.push_back(pairs_[i].id);
      }
      if (sent.defined()) {
        result.send = mean(sent.clamp(0, 1), probe);
        result.send_raw = mean(sent, probe);
        result.pair_send = of_pairs(sent, probe);
      }
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(pairs_.size()); }
  at::Tensor per_pair(at::IntArrayRef shape) const {
    std::vector<std::int64_t> sizes = {count()};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    return at::zeros(sizes, teacher_.embed.options().dtype(at::kDouble).requires_grad(false));
  }
  // Calls `work` for this rank's part of `items`, every size-th.
  void share_out(const std::string& title, const std::vector<std::int64_t>& items, std::int64_t total,
                 const std::function<void(std::int64_t)>& work) const {
    const std::int64_t before = total - static_cast<std::int64_t>(items.size());
    std::optional<metrics::Progress> shown;
    if (communicator_.rank() == 0) {
      shown.emplace(metrics::ProgressOptions{.title = title, .unit = "pairs", .total = total, .done = before});
    }
    dist::run_together(communicator_, [&] {
      for (std::size_t i = static_cast<std::size_t>(communicator_.rank()); i < items.size();
           i += static_cast<std::size_t>(communicator_.size())) {
        if (stop_requested()) {
          throw Interrupted("head scoring stopped by a signal; the same command goes on from here");
        }
        work(items[i]);
        if (shown) {
          const std::int64_t reached = before + static_cast<std::int64_t>(i) + communicator_.size();
          shown->update(std::min(reached, total), pairs_[items[i]].id);
        }
      }
    });
    if (shown) {
      shown->finish();
    }
  }

  void score_missing() const {
    std::vector<std::int64_t> missing;
    for (std::int64_t i = 0; i < count(); ++i) {
      if (!store_.contains(pairs_[i].id)) {
        missing.push_back(i);
      }
    }
    communicator_.barrier();  // every rank has looked before one writes
    share_out("select: pairs", missing, count(),
              [&](std::int64_t i) { store_.save(pairs_[i].id, score_pair(teacher_, pairs_[i], config_)); });
  }

  // What every rank needs of all pairs; each value comes from one rank, so the sum is exact.
  void gather() {
    const std::int64_t layers = teacher_.config.base.layers, heads = teacher_.config.base.heads;
    at::Tensor kept = per_pair({}), receive = per_pair({layers, heads}), attribution = per_pair({layers, heads});
    for (std::int64_t i = communicator_.rank(); i < count(); i += communicator_.size()) {
      const PairEffects effects = store_.load(pairs_[i].id, layers);
      if (effects.kept) {
        kept[i] = 1;
        receive[i].copy_(effects.receive);
        attribution[i].copy_(effects.attribution);
      }
    }
    for (at::Tensor* all : {&kept, &receive, &attribution}) {
      communicator_.all_reduce_sum(*all);
    }
    receive_ = receive.to(at::kCPU);
    attribution_ = attribution.to(at::kCPU);
    kept = kept.to(at::kCPU);
    for (std::int64_t i = 0; i < count(); ++i) {
      if (probes_.empty() || probes_.back().name != pairs_[i].probe) {
        probes_.push_back({.name = pairs_[i].probe, .capability = pairs_[i].capability, .pairs = {}, .dropped = 0});
      }
      if (kept[i].item<double>() > 0) {
        probes_.back().pairs.push_back(i);
      } else {
        ++probes_.back().dropped;
      }
    }
    leave_out_failed_probes();
  }

  // A few pairs that happened to pass would stand for an ability that the teacher does not have.
  void leave_out_failed_probes() {
    for (Probe& probe : probes_) {
      const auto kept = static_cast<std::int64_t>(probe.pairs.size()), all = kept + probe.dropped;
      if (kept > 0 && static_cast<double>(kept) < config_.min_kept * static_cast<double>(all)) {
        if (communicator_.rank() == 0) {
          log_warning("select: probe ", probe.name, " keeps ", kept, " of ", all,
                      " pairs, fewer than select.min_kept asks for; left out");
        }
        probe.pairs.clear();
        probe.dropped = all;
      }
    }
  }

  static at::Tensor of_pairs(const at::Tensor& all, const Probe& probe) {
    return all.index_select(0, at::tensor(probe.pairs, at::kLong));
  }
  // Mean of [P, L, H] over the kept pairs of a probe; zeros if there is none.
  at::Tensor mean(const at::Tensor& all, const Probe& probe) const {
    return probe.pairs.empty() ? at::zeros_like(all[0]) : of_pairs(all, probe).mean(0);
  }
  at::Tensor mean_over_probes(const at::Tensor& all) const {
    std::vector<at::Tensor> means;
    for (const Probe& probe : probes_) {
      if (!probe.pairs.empty()) {
        means.push_back(mean(all, probe));
      }
    }
    return means.empty() ? at::zeros_like(all[0]) : at::stack(means).mean(0);
  }

  // Rounds of sender patching (method.md 3.3): senders found join the receivers of the next round. [P, L, H].
  at::Tensor send() const {
    std::vector<std::int64_t> kept;
    for (const Probe& probe : probes_) {
      kept.insert(kept.end(), probe.pairs.begin(), probe.pairs.end());
    }
    at::Tensor receivers = mean_over_probes(receive_) >= config_.threshold;
    at::Tensor sent = at::zeros_like(receive_);
    for (std::int64_t round = 1; round <= config_.sender_rounds; ++round) {
      at::Tensor found = per_pair(receive_[0].sizes());
      share_out(detail::concat("select: senders, round ", round), kept, static_cast<std::int64_t>(kept.size()),
                [&](std::int64_t i) { found[i].copy_(effects_on(receivers, i)); });
      communicator_.all_reduce_sum(found);
      sent = found.to(at::kCPU);
      const at::Tensor joined = receivers.logical_or(mean_over_probes(sent) >= config_.threshold);
      if (communicator_.rank() == 0) {
        log_info("select: round ", round, ": ", receivers.sum().item<std::int64_t>(), " receivers, ",
                 (mean_over_probes(sent) >= config_.threshold).sum().item<std::int64_t>(), " senders");
      }
      if (at::equal(joined, receivers)) {
        break;  // the next round would find the same
      }
      receivers = joined;
    }
    return sent;
  }

  at::Tensor effects_on(const at::Tensor& receivers, std::int64_t i) const {
    const CounterfactualPair& pair = pairs_[i];
    const PairEffects scored = store_.load(pair.id, teacher_.config.base.layers);
    const Readout readout = readout_of(pair, config_, teacher_.embed.device());
    const bool noising = config_.direction == Direction::noising;
    const CapturedRun base = capture_run(teacher_, noising ? pair.clean : pair.corrupt);
    const PatchedPair patched{base, base, readout, noising ? scored.clean : scored.corrupt,
                              noising ? scored.corrupt : scored.clean};
    return sender_effects(teacher_, patched, scored.changes, receivers);
  }

  const model::Model& teacher_;
  const std::vector<CounterfactualPair>& pairs_;
  const SelectConfig& config_;
  const PairStore& store_;
  dist::Communicator& communicator_;
  at::Tensor receive_, attribution_;  // [P, L, H] fp64, CPU
  std::vector<Probe> probes_;
};

}  // namespace

std::vector<ProbeEffects> score_heads(const model::Model& teacher, const std::vector<CounterfactualPair>& pairs,
                                      const SelectConfig& config, const std::filesystem::path& work_dir,
                                      const Json& settings, dist::Communicator& communicator) {
  HYDRA_CHECK(!teacher.is_hybrid() && !pairs.empty(), "heads of a teacher are scored on pairs");
  const PairStore store(work_dir, settings, communicator);
  return Scoring(teacher, pairs, config, store, communicator).run();
}

ScoringMemory scoring_memory(const model::Qwen3Config& teacher, const SelectConfig& config, std::int64_t tokens,
                             std::int64_t rows, std::int64_t element_bytes) {
  const std::int64_t width = teacher.hidden_size, inner = teacher.intermediate_size, layers = teacher.layers;
  const std::int64_t queries = teacher.heads * teacher.head_dim, keys = teacher.kv_heads * teacher.head_dim;
  const std::int64_t runs = 2 * layers * tokens * (2 * width + queries);  // clean and corrupt
  const std::int64_t backward = layers * tokens * (6 * width + 4 * inner + 3 * queries + 3 * keys);  // attribution
  std::int64_t peak = backward, disk = 0;
  if (config.method == Method::interp && config.sender_rounds > 0) {
    const std::int64_t carried = teacher.heads * tokens;  // rows of one sender layer's pass
    const std::int64_t mlp_rows = std::min<std::int64_t>(carried, 32768);
    disk = teacher.heads * teacher.heads * rows * teacher.head_dim * layers * (layers - 1) / 2;
    peak = std::max(peak, carried * (4 * width + 4 * keys) + 4 * mlp_rows * inner + 2 * layers * tokens * keys + disk);
  }
  return {.device = (runs + peak) * element_bytes, .disk_of_a_pair = disk * element_bytes};
}

}  // namespace hydra::select
