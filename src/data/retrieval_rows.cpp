#include "retrieval_rows.hpp"

#include <algorithm>
#include <cmath>

#include "haystack.hpp"
#include "hydrahead/base/error.hpp"
#include "niah_keys.hpp"
#include "niah_text.hpp"

namespace hydra::data {
namespace {

constexpr std::uint32_t retrieval_domain = 0x52455452;  // samples of evaluation use stream numbers below 16 * 13
constexpr std::int64_t least_document = 128;
constexpr std::int64_t short_noise_length = 256;  // as in evaluation: below, a noise line is one sentence
constexpr std::int64_t least_essay_words = 5;

// What a document is made of, drawn before its size is known.
struct Plan {
  HaystackKind haystack = HaystackKind::noise;
  ItemKind key = ItemKind::words, value = ItemKind::numbers;
  std::size_t keys = 1, values = 1;         // values is a key's number of values
  std::vector<std::size_t> question_sizes;  // keys asked for in each question
};

Plan draw_plan(RandomStream& random, std::int64_t length, bool has_essay) {
  Plan plan;
  const double kind = random.uniform();
  plan.haystack = kind < 0.2                 ? HaystackKind::needle
                  : has_essay && kind < 0.65 ? HaystackKind::essay
                                             : HaystackKind::noise;
  plan.value = random.uniform() < 0.2 ? ItemKind::uuids : ItemKind::numbers;
  if (plan.haystack == HaystackKind::needle && plan.value == ItemKind::uuids && random.below(2) == 0) {
    plan.key = ItemKind::uuids;
  }
  const std::int64_t item_cost =
      plan.value == ItemKind::uuids ? 300 : 100;  // tokens of a needle and its question, roughly
  const auto most_keys = static_cast<std::uint32_t>(std::clamp<std::int64_t>(length / item_cost - 1, 1, 16));
  plan.keys = random.uniform() < 0.25 ? 1 : 1 + random.below(most_keys);
  if (random.uniform() < 0.25) {
    plan.values = 1 + random.below(std::min(most_keys, 4u));
    plan.keys = std::max<std::size_t>(1, plan.keys / plan.values);
  }
  // One question after the other until all keys are asked for; a quarter of the documents stop after the first.
  const bool one_question = random.uniform() < 0.25;
  const bool several_at_once = random.uniform() < 0.25;
  for (std::size_t asked = 0; asked < plan.keys && !(one_question && asked > 0);) {
    const auto left = static_cast<std::uint32_t>(std::min<std::size_t>(plan.keys - asked, 4));
    plan.question_sizes.push_back(several_at_once ? 1 + random.below(left) : 1);
    asked += plan.question_sizes.back();
  }
  return plan;
}

}  // namespace

RetrievalRows::RetrievalRows(std::string name, Corpora corpora, std::int64_t context, Packing packing,
                             const text::Tokenizer& tokenizer, text::TokenId end_token, std::uint64_t seed)
    : name_(std::move(name)),
      corpora_(std::move(corpora)),
      context_(context),
      packing_(packing),
      tokenizer_(tokenizer),
      end_token_(end_token),
      seed_(seed) {
  HYDRA_REQUIRE(context >= least_document, name_, ": a retrieval row of ", context,
                " tokens is too short; expected a context of at least ", least_document);
  if (!corpora_.essay.empty()) {
    essay_ = std::make_unique<EssayText>(corpora_.essay, tokenizer);
  }
}

// At most `length` tokens, the end token among them; empty if the drawn plan does not fit.
std::vector<text::TokenId> RetrievalRows::document(RandomStream& random, std::int64_t length) const {
  const Plan plan = draw_plan(random, length, essay_ != nullptr);
  const auto count = [&](std::string_view text) {
    return static_cast<std::int64_t>(tokenizer_.encode(text, {.parse_added_tokens = false}).size());
  };
  KeyMaker key_maker(corpora_, plan.key);
  std::vector<std::string> keys, sentences;
  std::vector<std::vector<std::string>> values;  // of each key
  for (std::size_t k = 0; k < plan.keys; ++k) {
    keys.push_back(key_maker.next(random));
    values.emplace_back();
    for (std::size_t v = 0; v < plan.values; ++v) {
      values.back().push_back(random_item(plan.value, corpora_, random));
      sentences.push_back(needle_sentence(plan.value, keys.back(), values.back().back()));
    }
  }
  random.shuffle(sentences);

  // Questions with their answers; keys are asked for in the order drawn, which says nothing about their places.
  std::string head, questions;
  std::int64_t fixed_tokens = 1;  // the end token
  std::size_t next_key = 0;
  for (std::size_t q = 0; q < plan.question_sizes.size(); ++q) {
    std::vector<std::string> query, answer;
    for (std::size_t i = 0; i < plan.question_sizes[q]; ++i, ++next_key) {
      query.push_back(keys[next_key]);
      answer.insert(answer.end(), values[next_key].begin(), values[next_key].end());
    }
    const NiahPrompt prompt = niah_prompt(plan.value, answer.size() > 1, query);
    if (q == 0) {
      head = prompt.head;
      fixed_tokens += count(head);
    }
    const std::string round = prompt.question + prompt.answer_prefix + " " + join_with_and(answer) +
                              (q + 1 < plan.question_sizes.size() ? ".\n" : ".");
    fixed_tokens += count(round);
    questions += round;
  }

  std::size_t line = 0;
  const std::function<std::string()> next_line = [&]() -> std::string {
    if (plan.haystack == HaystackKind::needle) {
      const std::string key = key_maker.next(random);
      return needle_sentence(plan.value, key, random_item(plan.value, corpora_, random));
    }
    if (length < short_noise_length) {
      return std::string(noise_sentences[line++ % std::size(noise_sentences)]);
    }
    return noise_line();
  };
  const std::int64_t room = length - fixed_tokens;
  if (room <= 0) {
    return {};
  }
  std::unique_ptr<Haystack> haystack;
  const bool in_essay = plan.haystack == HaystackKind::essay;
  if (in_essay) {
    const auto first_word = static_cast<std::int64_t>(random.below64(static_cast<std::uint64_t>(essay_->words())));
    haystack = std::make_unique<EssayHaystack>(*essay_, first_word, room, sentences, tokenizer_);
  } else {
    haystack = std::make_unique<LineHaystack>(next_line, room, sentences, tokenizer_);
  }
  std::vector<double> depths(sentences.size());
  std::generate(depths.begin(), depths.end(), [&] { return random.uniform(); });
  std::sort(depths.begin(), depths.end());
  const auto positions = [&](std::int64_t units) {
    std::vector<std::int64_t> places;
    places.reserve(depths.size());
    for (const double depth : depths) {
      places.push_back(static_cast<std::int64_t>(depth * static_cast<double>(haystack->places(units) + 1)));
    }
    return places;
  };
  std::int64_t units = fit_units(in_essay ? least_essay_words : 1, haystack->most_units(), room,
                                 [&](std::int64_t n) { return haystack->tokens(n, positions(n)); });
  for (; units > 0; --units) {  // the counts add up for every tokenizer known to us: the first try fits
    std::vector<text::TokenId> ids = tokenizer_.encode(
        head + haystack->text(units, positions(units)) + "\n" + questions, {.parse_added_tokens = false});
    if (std::ssize(ids) < length) {
      ids.push_back(end_token_);
      return ids;
    }
  }
  return {};
}

Row RetrievalRows::row(std::uint64_t index) const {
  RandomStream random(seed_, retrieval_domain, static_cast<std::uint32_t>(index),
                      static_cast<std::uint32_t>(index >> 32));
  const bool one_document = random.below(2) == 0;
  Row row;
  int failures = 0;
  while (true) {
    const std::int64_t left = context_ - std::ssize(row.ids);
    if (left < least_document) {
      break;
    }
    std::int64_t length = left;
    if (!one_document) {  // log-uniform
      const double ratio = static_cast<double>(context_) / static_cast<double>(least_document);
      length = static_cast<std::int64_t>(static_cast<double>(least_document) * std::pow(ratio, random.uniform()));
      length = left - length < least_document ? left : length;
    }
    const std::vector<text::TokenId> ids = document(random, length);
    if (ids.empty()) {  // the plan was too large: another one, unless the row is nearly full
      HYDRA_REQUIRE(++failures < 100, name_, ": no retrieval sample fits into ", length,
                    " tokens with this tokenizer; expected a longer context");
      if (failures >= 4 && !row.ids.empty()) {
        break;
      }
      continue;
    }
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    row.labels.insert(row.labels.end(), ids.begin() + 1, ids.end());
    row.labels.push_back(-1);
    row.documents.push_back(detail::concat(name_, ":", index, ".", row.documents.size()));
    row.lengths.push_back(std::ssize(ids));
  }
  if (packing_ == Packing::eos_join) {  // one text
    for (std::size_t i = 0; i + 1 < row.ids.size(); ++i) {
      row.labels[i] = row.ids[i + 1];
    }
    row.lengths = {std::ssize(row.ids)};
    row.documents = {detail::concat(name_, ":", index)};
  }
  return row;
}

}  // namespace hydra::data
