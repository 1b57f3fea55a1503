// Prompts are prefilled in groups of bounded rows, and all that have not ended decode together, one row each a step.

#include "hydrahead/model/generate.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <tuple>
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

// Prompts [first, last), side by side in `rounds` rounds of at most prefill_chunk rows: each prompt is cut into as many
// pieces as there are rounds, so that every sequence has rows in each.
struct PrefillGroup {
  std::size_t first, last, rounds;
};

// A group grows as long as its shortest prompt has a row for every round. On a GPU, where a pass over more sequences
// costs less, it grows over many rounds, on a CPU within one.
std::vector<PrefillGroup> prefill_groups(const Prompts& prompts, std::size_t chunk, bool many_rounds) {
  const auto rounds_of = [&](std::size_t rows) { return (rows + chunk - 1) / chunk; };
  std::vector<PrefillGroup> groups;
  for (std::size_t first = 0; first < prompts.size();) {
    std::size_t last = first, rows = 0, shortest = prompts[first].size();
    while (last < prompts.size() && (many_rounds || last == first || rows + prompts[last].size() <= chunk) &&
           std::min(shortest, prompts[last].size()) >= rounds_of(rows + prompts[last].size())) {
      shortest = std::min(shortest, prompts[last].size());
      rows += prompts[last++].size();
    }
    groups.push_back({first, last, rounds_of(rows)});
    first = last;
  }
  return groups;
}

// The group's state, and its prompts' last hidden rows [S, D].
std::pair<DecodeState, at::Tensor> prefill_group(const Model& model, const Prompts& prompts, const PrefillGroup& group,
                                                 bool log_scale, StateType state_type) {
  DecodeState state = make_decode_state(model, static_cast<std::int64_t>(group.last - group.first), state_type);
  at::Tensor rows;
  for (std::size_t round = 0; round < group.rounds; ++round) {
    poll_stop();
    std::vector<std::int64_t> ids, lengths;
    for (std::size_t p = group.first; p < group.last; ++p) {
      const std::size_t begin = prompts[p].size() * round / group.rounds;
      const std::size_t end = prompts[p].size() * (round + 1) / group.rounds;
      ids.insert(ids.end(), prompts[p].begin() + static_cast<std::ptrdiff_t>(begin),
                 prompts[p].begin() + static_cast<std::ptrdiff_t>(end));
      lengths.push_back(static_cast<std::int64_t>(end - begin));
    }
    rows = advance(model, state, to_ids(ids, model.embed.device()), lengths, log_scale);
  }
  return {std::move(state), rows};
}

std::pair<DecodeState, at::Tensor> prefill(const Model& model, const Prompts& prompts, bool log_scale,
                                           const GenerateOptions& options) {
  const bool on_cpu = model.embed.is_cpu();
  const auto groups = prefill_groups(prompts, static_cast<std::size_t>(options.prefill_chunk), !on_cpu);
  std::vector<DecodeState> states(groups.size());
  std::vector<at::Tensor> hidden(groups.size());
  const auto run = [&](std::int64_t i) {
    std::tie(states[i], hidden[i]) = prefill_group(model, prompts, groups[i], log_scale, options.state_type);
  };
  // On a CPU a thread a group, as long as there is one for each: none waits for another between operations.
  const auto count = static_cast<std::int64_t>(groups.size());
  const std::int64_t apart = on_cpu ? count / at::get_num_threads() * at::get_num_threads() : 0;
  at::parallel_for(0, apart, 1, [&](std::int64_t begin, std::int64_t end) {
    const c10::NoGradGuard no_grad;  // of this thread
    for (std::int64_t i = begin; i < end; ++i) {
      run(i);
    }
  });
  for (std::int64_t i = apart; i < count; ++i) {
    run(i);
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
  DecodeState state;
  at::Tensor hidden;
  std::tie(state, hidden) = prefill(model, prompts, log_scale, options);

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
