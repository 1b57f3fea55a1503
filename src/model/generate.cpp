// Prompts are prefilled side by side in rounds of bounded rows, and all that have not ended decode together, one row
// each a step.

#include "hydrahead/model/generate.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/model/decode_state.hpp"
#include "hydrahead/model/sampling.hpp"

namespace hydra::model {
namespace {

using Prompts = std::vector<std::vector<std::int32_t>>;

void check_prompts(const Model& model, const Prompts& prompts) {
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    HYDRA_REQUIRE(!prompts[p].empty(), "prompt ", p, ": found no token, expected at least one");
    for (const std::int32_t id : prompts[p]) {
      HYDRA_REQUIRE(id >= 0 && id < model.config.base.vocab_size, "prompt ", p, ": found token id ", id,
                    ", expected one below the model's vocabulary size ", model.config.base.vocab_size);
    }
  }
}

void poll_stop() {
  if (stop_requested()) {
    throw Interrupted("generation stopped by a signal");
  }
}

at::Tensor to_ids(const std::vector<std::int64_t>& ids, const at::Device& device) {
  return at::tensor(ids, at::kLong).to(device);
}

// Prompts [first, last) side by side in rounds of at most prefill_chunk rows: each prompt is cut into as many pieces as
// there are rounds, so that every sequence has rows in each. Appends their last hidden rows [S, D] and their state.
void prefill_group(const Model& model, const Prompts& prompts, std::size_t first, std::size_t last, std::size_t rounds,
                   bool log_scale, StateType state_type, std::vector<DecodeState>& states,
                   std::vector<at::Tensor>& hidden) {
  DecodeState state = make_decode_state(model, static_cast<std::int64_t>(last - first), state_type);
  at::Tensor rows;
  for (std::size_t round = 0; round < rounds; ++round) {
    poll_stop();
    std::vector<std::int64_t> ids, lengths;
    for (std::size_t p = first; p < last; ++p) {
      const std::size_t begin = prompts[p].size() * round / rounds, end = prompts[p].size() * (round + 1) / rounds;
      ids.insert(ids.end(), prompts[p].begin() + static_cast<std::ptrdiff_t>(begin),
                 prompts[p].begin() + static_cast<std::ptrdiff_t>(end));
      lengths.push_back(static_cast<std::int64_t>(end - begin));
    }
    rows = advance(model, state, to_ids(ids, model.embed.device()), lengths, log_scale);
  }
  hidden.push_back(rows);
  states.push_back(std::move(state));
}

std::pair<DecodeState, at::Tensor> prefill(const Model& model, const Prompts& prompts, bool log_scale,
                                           const GenerateOptions& options) {
  std::vector<DecodeState> states;
  std::vector<at::Tensor> hidden;
  const auto chunk = static_cast<std::size_t>(options.prefill_chunk);
  const auto rounds_of = [&](std::size_t rows) { return (rows + chunk - 1) / chunk; };
  for (std::size_t first = 0; first < prompts.size();) {
    // A group grows as long as its shortest prompt has a row for every round.
    std::size_t last = first, rows = 0, shortest = prompts[first].size();
    while (last < prompts.size() &&
           std::min(shortest, prompts[last].size()) >= rounds_of(rows + prompts[last].size())) {
      shortest = std::min(shortest, prompts[last].size());
      rows += prompts[last++].size();
    }
    prefill_group(model, prompts, first, last, rounds_of(rows), log_scale, options.state_type, states, hidden);
    first = last;
  }
  return {merge_states(std::move(states)), at::cat(hidden)};
}

// The next token of each active prompt from logits [S, V].
std::vector<std::int32_t> choose_tokens(const at::Tensor& logits, const std::vector<std::int64_t>& prompt_of,
                                        std::int64_t step, const GenerateOptions& options) {
  const auto [top, argmax] = logits.max(1);
  const at::Tensor top_host = top.to(at::kCPU, at::kDouble);
  const at::Tensor argmax_host = argmax.to(at::kCPU);
  std::vector<std::int32_t> tokens;
  for (std::size_t s = 0; s < prompt_of.size(); ++s) {
    HYDRA_CHECK(std::isfinite(top_host.const_data_ptr<double>()[s]), "logits of prompt ", prompt_of[s], " at step ",
                step, " are not finite");
    tokens.push_back(static_cast<std::int32_t>(argmax_host.const_data_ptr<std::int64_t>()[s]));
  }
  if (options.temperature > 0.0) {
    const at::Tensor rows = logits.to(at::kCPU, at::kFloat).contiguous();
    const auto width = static_cast<std::size_t>(rows.size(1));
    for (std::size_t s = 0; s < prompt_of.size(); ++s) {
      RandomStream random(options.seed, static_cast<std::uint32_t>(prompt_of[s]), static_cast<std::uint32_t>(step));
      tokens[s] = sample_token({rows.const_data_ptr<float>() + s * width, width},
                               {options.temperature, options.top_k, options.top_p}, random.uniform());
    }
  }
  return tokens;
}

}  // namespace

bool log_scale_at_inference(const Model& model) {
  return model.config.hybrid && model.config.hybrid->fa.log_scale.mode != LogScaleMode::off;
}

std::vector<std::vector<std::int32_t>> generate(const Model& model, const Prompts& prompts,
                                                const GenerateOptions& options) {
  HYDRA_CHECK(options.prefill_chunk > 0 && (options.budgets.empty() || options.budgets.size() == prompts.size()));
  check_prompts(model, prompts);
  Prompts outputs(prompts.size());
  if (prompts.empty()) {
    return outputs;
  }
  const c10::NoGradGuard no_grad;
  const bool log_scale = options.log_scale && log_scale_at_inference(model);
  auto [state, hidden] = prefill(model, prompts, log_scale, options);

  std::vector<std::int64_t> prompt_of(prompts.size());  // of each sequence that still decodes
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    prompt_of[p] = static_cast<std::int64_t>(p);
  }
  const auto budget = [&](std::int64_t p) { return options.budgets.empty() ? options.max_new : options.budgets[p]; };
  for (std::int64_t step = 0;; ++step) {
    poll_stop();
    // A prompt whose budget is used up leaves before its next token is chosen.
    std::vector<std::int64_t> kept, prompts_kept;
    const auto thin = [&](const std::function<bool(std::size_t)>& stays) {
      kept.clear();
      prompts_kept.clear();
      for (std::size_t s = 0; s < prompt_of.size(); ++s) {
        if (stays(s)) {
          kept.push_back(static_cast<std::int64_t>(s));
          prompts_kept.push_back(prompt_of[s]);
        }
      }
      const bool changed = kept.size() != prompt_of.size();
      keep_sequences(state, kept);
      prompt_of = prompts_kept;
      return changed;
    };
    if (thin([&](std::size_t s) { return step < budget(prompt_of[s]); })) {
      hidden = hidden.index_select(0, to_ids(kept, hidden.device()));
    }
    if (prompt_of.empty()) {
      break;
    }
    std::vector<std::int32_t> tokens = choose_tokens(logits_of(model, hidden), prompt_of, step, options);
    std::vector<std::int64_t> next;
    thin([&](std::size_t s) {
      const std::int64_t p = prompt_of[s];
      outputs[p].push_back(tokens[s]);
      const bool wanted = !options.on_token || options.on_token(static_cast<std::size_t>(p), tokens[s]);
      const bool stop =
          std::find(options.stop_ids.begin(), options.stop_ids.end(), tokens[s]) != options.stop_ids.end();
      const bool stays = wanted && !stop && step + 1 < budget(p);
      if (stays) {
        next.push_back(tokens[s]);
      }
      return stays;
    });
    if (prompt_of.empty()) {
      break;
    }
    hidden = advance(model, state, to_ids(next, hidden.device()), std::vector<std::int64_t>(next.size(), 1), log_scale);
  }
  return outputs;
}

}  // namespace hydra::model
