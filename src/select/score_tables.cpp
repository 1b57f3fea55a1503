#include "score_tables.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/slot_report.hpp"

namespace hydra::select {
namespace {

// "0.141 (0.50 send)": score, kappa and the stronger role; no role where a head does nothing, or none is told apart.
std::string capability_text(const CapabilityScore& capability, const model::LayerHead& head) {
  const auto at = [&](const at::Tensor& matrix) { return matrix[head.first][head.second].item<double>(); };
  const char* role = !capability.send.defined() || at(capability.strength) == 0 ? ""
                     : at(capability.sends) != 0                                ? " send"
                                                                                : " recv";
  return detail::concat(number_text(at(capability.score)), " (", number_text(at(capability.kappa), "%.2f"), role, ")");
}

}  // namespace

std::string number_text(double value, const char* format) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

TextTable ranking_table(const ScoreReport& report, std::size_t count) {
  TextTable table{.header = {"rank", "layer", "head", "score", "effect", "attribution"}, .rows = {}};
  for (const CapabilityScore& capability : report.fused.capabilities) {
    table.header.push_back(capability.name + (capability.send.defined() ? " (kappa, role)" : " (kappa)"));
  }
  table.header.emplace_back("full attention");
  const std::vector<model::LayerHead> order = model::ranking(report.scores);
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    const auto [layer, head] = order[i];
    const model::HeadScore& score = report.scores.layers[layer][head];
    std::vector<std::string> row = {std::to_string(i + 1),
                                    std::to_string(layer),
                                    std::to_string(head),
                                    number_text(score.score),
                                    number_text(score.effect, "%.4f"),
                                    number_text(score.attribution, "%.4f")};
    for (const CapabilityScore& capability : report.fused.capabilities) {
      row.push_back(capability_text(capability, order[i]));
    }
    const auto& kept = report.plan.layers[layer].fa_heads;
    row.emplace_back(std::find(kept.begin(), kept.end(), head) != kept.end() ? "yes" : "no");
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable probe_table(const ScoreReport& report) {
  TextTable table{.header = {"probe", "capability", "pairs", "dropped", "largest effect"}, .rows = {}};
  for (const ProbeEffects& probe : report.probes) {
    std::string most = "-";
    if (probe.pairs > 0) {
      const auto heads = probe.receive_raw.size(1), at = probe.receive_raw.argmax().item<std::int64_t>();
      most = detail::concat(number_text(probe.receive_raw.max().item<double>()), ", layer ", at / heads, " head ",
                            at % heads);
    }
    table.rows.push_back(
        {probe.probe, probe.capability, std::to_string(probe.pairs), std::to_string(probe.dropped), most});
  }
  return table;
}

std::string slots_text(const ScoreReport& report) {
  const model::SlotReport slots = model::count_slots(report.plan, report.scores);
  const std::size_t heads = report.scores.layers.size() * report.scores.layers.front().size();
  std::string text = detail::concat("Heads with full attention by rule ", report.plan.rule, ": ", slots.total, " of ",
                                    heads, ", KV groups that they touch: ", report.plan.touched_groups(),
                                    ". Heads of them with a score "
                                    "above 0: ",
                                    slots.above_zero, ". Places that the score decided: ", slots.by_score);
  const auto add = [&](std::int64_t count, const char* what) {
    text += count > 0 ? detail::concat("; ", what, ": ", count) : std::string();
  };
  add(slots.by_effect, "the unclipped effect at equal scores");
  add(slots.by_attribution, "the attribution after it");
  add(slots.by_order, "only the order of the heads");
  add(slots.given, "given without regard to rank (always_keep, the rest of a KV group or layer, chance)");
  text += ".";
  if (2 * slots.by_ties() > slots.total) {
    text += detail::concat(
        " Warning: ties filled most places. The probes do not tell these heads from those that were left out, so "
        "expect little more of them than of heads drawn at random: keep fewer (heads.fa_ratio), or probe more of what "
        "the model must keep (select.general_file).");
  }
  for (const std::string& name : report.fused.left_out) {
    text += detail::concat(" Capability ", name,
                           " is left out: none of its probes has pairs left (select.min_margin, select.min_kept).");
  }
  return text;
}

}  // namespace hydra::select
