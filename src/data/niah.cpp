// Builds a sample: draws keys, values, query and places from streams of their own, fits the haystack by counting, and
// tokenizes the finished prompt once (evaluation.md sections 5 and 6).

#include "hydrahead/data/niah.hpp"

#include <algorithm>
#include <limits>

#include "haystack.hpp"
#include "hydrahead/base/error.hpp"
#include "niah_keys.hpp"
#include "niah_text.hpp"

namespace hydra::data {
namespace {

enum Stream : std::uint32_t { keys_stream, values_stream, query_stream, order_stream, place_stream, distractor_stream };

constexpr std::int64_t ruler_budget = 128;
constexpr std::int64_t thinking_budget = 4096;
constexpr std::int64_t full_budget_length = 1024;  // shorter samples get a budget of the answer's size
constexpr std::int64_t full_noise_line_length = 256;
constexpr std::int64_t least_essay_words = 5;  // so that short keys of a 4,096-id tokenizer fit at 128 tokens

// RULER's depths in percent: 40 values from 0 to 100, halves rounded to even.
constexpr double ruler_depths[] = {0,  3,  5,  8,  10, 13, 15, 18, 21, 23, 26, 28, 31, 33, 36, 38, 41, 44, 46, 49,
                                   51, 54, 56, 59, 62, 64, 67, 69, 72, 74, 77, 79, 82, 85, 87, 90, 92, 95, 97, 100};

// Everything of a sample but the haystack's size.
struct Draft {
  std::vector<Needle> needles;  // in the order of their places
  std::vector<Needle> answers;  // needles that are asked for, in the order of the references
  std::vector<std::string> query;
  NiahPrompt prompt;
  std::int64_t fixed_tokens = 0;  // of everything around the haystack
  std::int64_t budget = 0;
  std::unique_ptr<Haystack> haystack;
  std::int64_t least_units = 1;
};

std::vector<std::string> sentences_of(const std::vector<Needle>& needles) {
  std::vector<std::string> sentences;
  sentences.reserve(needles.size());
  for (const Needle& needle : needles) {
    sentences.push_back(needle.sentence);
  }
  return sentences;
}

// Bytes of all tokens end to end, with each token's first byte: finds text in ids.
class TokenBytes {
 public:
  TokenBytes(const std::vector<text::TokenId>& ids, const text::Tokenizer& tokenizer) {
    for (const text::TokenId id : ids) {
      begin_.push_back(bytes_.size());
      bytes_ += tokenizer.bytes_of(id);
    }
  }
  std::size_t find(std::string_view text) const {
    const std::size_t at = bytes_.find(text);
    HYDRA_CHECK(at != std::string::npos, "the prompt's tokens do not spell '", text, "'");
    return at;
  }
  // The tokens that hold any of the bytes [begin, end).
  TokenSpan span(std::size_t begin, std::size_t end) const {
    const auto first = std::upper_bound(begin_.begin(), begin_.end(), begin) - 1;
    const auto last = std::lower_bound(begin_.begin(), begin_.end(), end);
    return {first - begin_.begin(), last - begin_.begin()};
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> begin_;
};

}  // namespace

struct NiahBuilder::Impl {
  const Corpora& corpora;
  const text::Tokenizer& tokenizer;
  NiahOptions options;
  ChatWrapper wrapper;
  std::unique_ptr<EssayText> essay;

  Impl(const Corpora& c, const text::Tokenizer& t, NiahOptions o)
      : corpora(c), tokenizer(t), options(std::move(o)), wrapper(chat_wrapper(options)) {
    if (!corpora.essay.empty()) {
      essay = std::make_unique<EssayText>(corpora.essay, tokenizer);
    }
    HYDRA_REQUIRE(options.max_new >= -1, "max_new is ", options.max_new, "; expected auto, ruler or at least 1 token");
    for (const double depth : options.depths) {
      HYDRA_REQUIRE(depth >= 0 && depth <= 100, "depths: found ", depth, "; expected percentages between 0 and 100");
    }
  }

  std::int64_t count(std::string_view text, bool special = false) const {
    return static_cast<std::int64_t>(tokenizer.encode(text, {.add_special_tokens = special}).size());
  }

  std::int64_t budget_of(const std::vector<Needle>& answers, std::int64_t length) const {
    if (options.max_new > 0) {
      return options.max_new;
    }
    if (options.max_new == 0 && options.prompt == PromptForm::chat_thinking) {
      return std::min(thinking_budget, length / 2);
    }
    if (options.max_new == -1 || length >= full_budget_length) {
      return ruler_budget;
    }
    std::string list;
    for (const Needle& answer : answers) {
      list += (list.empty() ? " " : ", ") + answer.value;
    }
    return std::min(ruler_budget, count(list) + 8);
  }

  std::string answer_prefix(const Draft& draft) const {
    return options.answer_prefix && options.prompt != PromptForm::chat_thinking ? draft.prompt.answer_prefix : "";
  }

  // `most_tokens` bounds the haystack that is prepared.
  Draft draft(NiahTask task, std::int64_t length, std::int64_t index, std::int64_t most_tokens) const {
    const NiahSpec& spec = niah_spec(task);
    const auto stream = [&](std::uint32_t number) {
      return RandomStream(options.seed, 16 * static_cast<std::uint32_t>(task) + number,
                          static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(length));
    };
    RandomStream keys = stream(keys_stream), values = stream(values_stream), query = stream(query_stream);
    Draft draft;
    KeyMaker key_maker(corpora, spec.key);
    std::vector<std::vector<Needle>> by_key;
    for (int k = 0; k < spec.keys; ++k) {
      const std::string key = key_maker.next(keys);
      by_key.emplace_back();
      for (int v = 0; v < spec.values; ++v) {
        const std::string value = random_item(spec.value, corpora, values);
        by_key.back().push_back({key, value, needle_sentence(spec.value, key, value)});
        draft.needles.push_back(by_key.back().back());
      }
    }
    stream(order_stream).shuffle(draft.needles);
    for (const std::uint32_t k :
         query.sample(static_cast<std::uint32_t>(spec.keys), static_cast<std::uint32_t>(spec.queries))) {
      draft.query.push_back(by_key[k].front().key);
      draft.answers.insert(draft.answers.end(), by_key[k].begin(), by_key[k].end());
    }
    draft.prompt = niah_prompt(spec.value, spec.queries * spec.values > 1, draft.query);
    draft.fixed_tokens = count(wrapper.before + draft.prompt.head, true) +
                         count(draft.prompt.question + wrapper.after + answer_prefix(draft));
    draft.budget = budget_of(draft.answers, length);
    RandomStream distractors = stream(distractor_stream);
    make_haystack(draft, spec, length, most_tokens, key_maker, distractors);
    return draft;
  }

  void make_haystack(Draft& draft, const NiahSpec& spec, std::int64_t length, std::int64_t most_tokens,
                     KeyMaker& key_maker, RandomStream& distractors) const {
    const std::vector<std::string> needles = sentences_of(draft.needles);
    if (spec.haystack == HaystackKind::essay) {
      HYDRA_REQUIRE(essay != nullptr, spec.name, " needs an essay text and ", (cache_dir() / "austen.txt").string(),
                    " does not exist: run tools/fetch_essay.py, or give --haystack FILE");
      draft.haystack =
          std::make_unique<EssayHaystack>(*essay, 0, std::max(most_tokens, least_essay_words), needles, tokenizer);
      draft.least_units = least_essay_words;
      return;
    }
    std::size_t line = 0;
    const std::function<std::string()> noise = [&]() -> std::string {
      if (length < full_noise_line_length) {
        return std::string(noise_sentences[line++ % std::size(noise_sentences)]);
      }
      return noise_line();
    };
    const std::function<std::string()> distractor = [&] {
      const std::string key = key_maker.next(distractors);
      return needle_sentence(spec.value, key, random_item(spec.value, corpora, distractors));
    };
    draft.haystack = std::make_unique<LineHaystack>(spec.haystack == HaystackKind::noise ? noise : distractor,
                                                    most_tokens, needles, tokenizer);
  }

  // Where the needles stand among `units` units, ascending.
  std::vector<std::int64_t> positions(const Draft& draft, NiahTask task, std::int64_t length, std::int64_t index,
                                      std::int64_t units) const {
    RandomStream random(options.seed, 16 * static_cast<std::uint32_t>(task) + place_stream,
                        static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(length));
    const std::size_t needles = draft.needles.size();
    const std::int64_t places = draft.haystack->places(units);
    std::vector<std::int64_t> positions;
    const auto place_at = [&](double depth) {
      positions.push_back(static_cast<std::int64_t>(static_cast<double>(places) * (depth / 100.0)));
    };
    if (!options.depths.empty()) {
      for (std::size_t i = 0; i < needles; ++i) {
        place_at(options.depths[(static_cast<std::size_t>(index) + i) % options.depths.size()]);
      }
    } else if (niah_spec(task).haystack == HaystackKind::essay) {
      for (const std::uint32_t i : random.sample(std::size(ruler_depths), static_cast<std::uint32_t>(needles))) {
        place_at(ruler_depths[i]);
      }
    } else {
      for (const std::uint32_t place :
           random.sample(static_cast<std::uint32_t>(places), static_cast<std::uint32_t>(needles))) {
        positions.push_back(place);
      }
    }
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  // Prompt tokens of the sample with the least haystack, and its budget.
  std::pair<std::int64_t, std::int64_t> least(NiahTask task, std::int64_t length, std::int64_t index) const {
    const Draft small = draft(task, length, index, 0);
    const auto places = positions(small, task, length, index, small.least_units);
    return {small.fixed_tokens + small.haystack->tokens(small.least_units, places), small.budget};
  }

  std::optional<std::int64_t> first_unfit(NiahTask task, std::int64_t length, std::int64_t begin,
                                          std::int64_t end) const {
    for (std::int64_t index = begin; index < end; ++index) {
      const auto [prompt, budget] = least(task, length, index);
      if (prompt + budget > length) {
        return index;
      }
    }
    return std::nullopt;
  }

  // The message for the samples [begin, end), of which `unfit` does not fit. Keys and budget depend on the length, so
  // that the shortest one is found by trying them in turn.
  std::string unfit_message(NiahTask task, std::int64_t length, std::int64_t begin, std::int64_t end,
                            std::int64_t unfit) const {
    const auto [prompt, budget] = least(task, length, unfit);
    std::int64_t shortest = std::max(length, options.max_new) + 1;
    for (std::int64_t suspect = unfit;; ++shortest) {
      const auto [least_prompt, least_budget] = least(task, shortest, suspect);
      if (least_prompt + least_budget > shortest) {
        continue;
      }
      const auto failing = first_unfit(task, shortest, begin, end);
      if (!failing) {
        break;
      }
      suspect = *failing;
    }
    const std::string whose = end - begin == 1 ? "this sample" : "all " + std::to_string(end - begin) + " samples";
    return detail::concat(task_name(task), " at length ", length, " does not fit: sample ", unfit, " needs at least ",
                          prompt + budget, " tokens (prompt ", prompt, ", answer budget ", budget,
                          "); shortest length for ", whose, ": ", shortest);
  }

  std::string context(const Draft& draft, NiahTask task, std::int64_t length, std::int64_t index,
                      std::int64_t units) const {
    return draft.haystack->text(units, positions(draft, task, length, index, units));
  }

  NiahSample build(NiahTask task, std::int64_t length, std::int64_t index) const;
};

NiahSample NiahBuilder::Impl::build(NiahTask task, std::int64_t length, std::int64_t index) const {
  const Draft draft = this->draft(task, length, index, length);
  const std::int64_t room = length - draft.budget;
  NiahSample sample;
  sample.answer_prefix = answer_prefix(draft);
  const auto prompt_of = [&](std::int64_t units) {
    return wrapper.before + draft.prompt.head + context(draft, task, length, index, units) + "\n" +
           draft.prompt.question + wrapper.after;
  };
  const auto encode = [&](const std::string& prompt) {
    return tokenizer.encode(prompt + sample.answer_prefix, {.add_special_tokens = true});
  };
  const auto counted = [&](std::int64_t units) {
    return draft.fixed_tokens + draft.haystack->tokens(units, positions(draft, task, length, index, units));
  };
  const std::int64_t most = draft.haystack->most_units();
  const auto fit = [&](const std::function<std::int64_t(std::int64_t)>& tokens_of) {
    sample.units = fit_units(draft.least_units, most, room, tokens_of);
    HYDRA_REQUIRE(sample.units > 0, unfit_message(task, length, index, index + 1, index));
    sample.prompt_text = prompt_of(sample.units);
    sample.ids = encode(sample.prompt_text);
  };
  fit(counted);
  sample.counts_added_up = static_cast<std::int64_t>(sample.ids.size()) == counted(sample.units);
  if (!sample.counts_added_up) {
    fit([&](std::int64_t units) { return static_cast<std::int64_t>(encode(prompt_of(units)).size()); });
  }

  sample.id = detail::concat(task_name(task), "/", length, "/", index);
  sample.task = task;
  sample.length = length;
  sample.index = index;
  sample.query = draft.query;
  sample.budget = draft.budget;
  if (niah_spec(task).haystack == HaystackKind::essay) {
    sample.essay_repeats = (sample.units - 1) / essay->words();
  }
  const TokenBytes bytes(sample.ids, tokenizer);
  for (const Needle& answer : draft.answers) {
    const std::size_t begin = bytes.find(answer.sentence);
    const std::size_t value_end = begin + answer.sentence.size() - 1;  // before the full stop
    sample.references.push_back(answer.value);
    sample.needles.push_back(bytes.span(begin, value_end + 1));
    sample.values.push_back(bytes.span(value_end - answer.value.size(), value_end));
    sample.depths.push_back(static_cast<double>(sample.needles.back().begin) / static_cast<double>(sample.ids.size()));
  }
  return sample;
}

NiahBuilder::NiahBuilder(const Corpora& corpora, const text::Tokenizer& tokenizer, NiahOptions options)
    : impl_(std::make_unique<const Impl>(corpora, tokenizer, std::move(options))) {}

NiahBuilder::~NiahBuilder() = default;

NiahSample NiahBuilder::sample(NiahTask task, std::int64_t length, std::int64_t index) const {
  constexpr std::int64_t limit = std::numeric_limits<std::uint32_t>::max();
  HYDRA_REQUIRE(length > 0 && length <= limit && index >= 0 && index <= limit, task_name(task), ": length ", length,
                ", sample ", index, "; expected 32-bit numbers and a positive length");
  return impl_->build(task, length, index);
}

std::optional<std::string> NiahBuilder::unfit_reason(NiahTask task, std::int64_t length, std::int64_t samples) const {
  if (const auto unfit = impl_->first_unfit(task, length, 0, samples)) {
    return impl_->unfit_message(task, length, 0, samples, *unfit);
  }
  return std::nullopt;
}

NiahSample make_niah_sample(NiahTask task, std::int64_t length, std::int64_t index, const NiahOptions& options,
                            const Corpora& corpora, const text::Tokenizer& tokenizer) {
  return NiahBuilder(corpora, tokenizer, options).sample(task, length, index);
}

}  // namespace hydra::data
