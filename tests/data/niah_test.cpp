// NIAH samples: RULER's form byte for byte, exact fit with two tokenizers, determinism, spans, refusals.

#include "hydrahead/data/niah.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "src/data/niah_text.hpp"
#include "tests/support/prose_corpora.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tokenizers.hpp"

namespace hydra::data {
namespace {

using test::nano_tokenizer;
using test::qwen3_tokenizer;

const Corpora& corpora() {
  static const Corpora loaded = test::prose_corpora(30000);
  return loaded;
}

const NiahBuilder& builder(const text::Tokenizer& tokenizer) {
  static std::map<const text::Tokenizer*, std::unique_ptr<NiahBuilder>> builders;
  auto& entry = builders[&tokenizer];
  if (!entry) {
    entry = std::make_unique<NiahBuilder>(corpora(), tokenizer, NiahOptions{});
  }
  return *entry;
}

std::int64_t size_of(const std::vector<text::TokenId>& ids) { return static_cast<std::int64_t>(ids.size()); }

// RULER's own samples: our wording around their keys, values and context gives their prompt.
TEST(NiahForm, EqualsRulersPrompts) {
  const Json fixture = read_json_file(std::string(HYDRA_FIXTURES) + "/ruler/niah.json");
  ASSERT_EQ(fixture["samples"].size(), 7u);
  for (const Json& entry : fixture["samples"]) {
    const std::string task = entry["task"];
    const NiahSpec& spec = niah_spec(task_of(task).value());
    NiahOptions options;
    options.prompt = entry["template"] == "base" ? PromptForm::base : PromptForm::chat;
    const ChatWrapper wrapper = chat_wrapper(options);
    const auto query = entry["query"].get<std::vector<std::string>>();
    const NiahPrompt prompt = niah_prompt(spec.value, spec.queries * spec.values > 1, query);
    const std::string context = entry["context"];
    EXPECT_EQ(wrapper.before + prompt.head + context + "\n" + prompt.question + wrapper.after + prompt.answer_prefix,
              entry["input"].get<std::string>() + entry["answer_prefix"].get<std::string>())
        << task;
    for (const auto& needle : entry["needles"]) {
      EXPECT_NE(context.find(needle_sentence(spec.value, needle[0].get<std::string>(), needle[1].get<std::string>())),
                std::string::npos);
    }
    if (entry.contains("length")) {
      const std::string text = entry["input"].get<std::string>() + entry["answer_prefix"].get<std::string>();
      EXPECT_EQ(size_of(qwen3_tokenizer().encode(text)) + entry["tokens_to_generate"].get<std::int64_t>(),
                entry["length"].get<std::int64_t>());
    }
  }
}

TEST(NiahForm, NoiseLinesAreRulers) {
  const NiahSample sample = builder(qwen3_tokenizer()).sample(NiahTask::single_1, 1024, 0);
  EXPECT_NE(
      sample.prompt_text.find("afterwards.\nThe grass is green. The sky is blue. The sun is yellow. Here we go. There "
                              "and back again.\n"),
      std::string::npos);
}

// Every distractor's key is its own, the asked key among them.
TEST(NiahSamples, KeysAreDistinctWithinOne) {
  const NiahSample sample = builder(qwen3_tokenizer()).sample(NiahTask::multikey_2, 65536, 3);
  const std::string mark = "One of the special magic numbers for ";
  std::set<std::string> keys;
  std::int64_t needles = 0;
  for (std::size_t at = sample.prompt_text.find(mark); at != std::string::npos;
       at = sample.prompt_text.find(mark, at + 1)) {
    const std::size_t begin = at + mark.size();
    keys.insert(sample.prompt_text.substr(begin, sample.prompt_text.find(" is: ", begin) - begin));
    ++needles;
  }
  EXPECT_EQ(static_cast<std::int64_t>(keys.size()), needles);
  EXPECT_EQ(needles, sample.units + 1);
}

class NiahFit : public testing::TestWithParam<std::tuple<bool, NiahTask>> {};

// Prompt and budget stay within the length, and one more unit of haystack would not.
TEST_P(NiahFit, IsExactAtEveryLength) {
  const auto& [real, task] = GetParam();
  const text::Tokenizer& tokenizer = real ? qwen3_tokenizer() : nano_tokenizer();
  int fitted = 0;
  for (const std::int64_t length : {128, 256, 512, 1024, 2048, 4096}) {
    for (std::int64_t index = 0; index < 6; ++index) {
      if (builder(tokenizer).unfit_reason(task, length, index + 1)) {
        EXPECT_LE(length, 256);
        break;
      }
      const NiahSample sample = builder(tokenizer).sample(task, length, index);
      ++fitted;
      EXPECT_TRUE(sample.counts_added_up);
      EXPECT_EQ(sample.ids, tokenizer.encode(sample.prompt_text + sample.answer_prefix));
      const std::int64_t used = size_of(sample.ids) + sample.budget;
      EXPECT_LE(used, length) << sample.id;
      // Lines and words cost at most this many tokens (a uuid line with the small tokenizer: 100).
      const NiahSpec& spec = niah_spec(task);
      const std::int64_t unit = spec.haystack == HaystackKind::essay   ? 16
                                : spec.haystack == HaystackKind::noise ? 40
                                : spec.key == ItemKind::uuids          ? 120
                                                                       : 45;
      EXPECT_GT(used + unit, length) << sample.id;
      if (length >= 4096) {
        const double least_fill = spec.key == ItemKind::uuids ? 0.97 : 0.99;  // a line of two uuids is 2% of 4096
        EXPECT_GE(static_cast<double>(used), least_fill * static_cast<double>(length)) << sample.id;
        EXPECT_EQ(sample.budget, 128);
      }
      const std::int64_t references = spec.queries * spec.values;
      ASSERT_EQ(static_cast<std::int64_t>(sample.references.size()), references);
      ASSERT_EQ(static_cast<std::int64_t>(sample.needles.size()), references);
      for (std::size_t i = 0; i < sample.references.size(); ++i) {
        const auto text_of = [&](const TokenSpan& span) {
          return tokenizer.decode(
              std::span(sample.ids)
                  .subspan(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)));
        };
        const std::string value = text_of(sample.values[i]);  // a token may hold the space before it too
        EXPECT_EQ(value[0] == ' ' ? value.substr(1) : value, sample.references[i]);
        EXPECT_NE(text_of(sample.needles[i]).find(" is: " + sample.references[i] + "."), std::string::npos);
        EXPECT_NE(text_of(sample.needles[i]).find(sample.query[i / static_cast<std::size_t>(spec.values)]),
                  std::string::npos);
        EXPECT_DOUBLE_EQ(sample.depths[i],
                         static_cast<double>(sample.needles[i].begin) / static_cast<double>(sample.ids.size()));
      }
    }
  }
  EXPECT_GE(fitted, 4 * 6);  // every task fits from 512 on
}

INSTANTIATE_TEST_SUITE_P(All, NiahFit, testing::Combine(testing::Bool(), testing::ValuesIn(all_niah_tasks)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "qwen3_" : "nano_") +
                                  std::string(task_name(std::get<1>(test.param)));
                         });

TEST(NiahSamples, AreAFunctionOfSeedTaskLengthAndIndex) {
  const NiahSample one = builder(nano_tokenizer()).sample(NiahTask::multiquery, 1024, 5);
  NiahSample other;
  std::thread([&] { other = builder(nano_tokenizer()).sample(NiahTask::multiquery, 1024, 5); }).join();
  EXPECT_EQ(one.ids, other.ids);
  EXPECT_EQ(one.references, other.references);
  EXPECT_EQ(make_niah_sample(NiahTask::multiquery, 1024, 5, {}, corpora(), nano_tokenizer()).ids, one.ids);
  NiahOptions reseeded;
  reseeded.seed = 43;
  EXPECT_NE(make_niah_sample(NiahTask::multiquery, 1024, 5, reseeded, corpora(), nano_tokenizer()).query, one.query);
  EXPECT_NE(builder(nano_tokenizer()).sample(NiahTask::multiquery, 1024, 6).query, one.query);
  EXPECT_EQ(one.id, "niah_multiquery/1024/5");
}

TEST(NiahSamples, DepthsGridIsFollowed) {
  NiahOptions options;
  options.depths = {0, 50, 100};
  const NiahBuilder grid(corpora(), nano_tokenizer(), options);
  for (const NiahTask task : {NiahTask::single_1, NiahTask::single_2}) {
    EXPECT_LT(grid.sample(task, 4096, 0).depths[0], 0.02);
    EXPECT_NEAR(grid.sample(task, 4096, 4).depths[0], 0.5, 0.03);
    EXPECT_GT(grid.sample(task, 4096, 2).depths[0], 0.95);
  }
}

TEST(NiahSamples, ChatFormAndBudgets) {
  NiahOptions options;
  options.prompt = PromptForm::chat;
  options.max_new = 20;
  const NiahSample sample = make_niah_sample(NiahTask::single_1, 512, 0, options, corpora(), qwen3_tokenizer());
  EXPECT_TRUE(sample.prompt_text.starts_with("<|im_start|>user\nA special magic number"));
  EXPECT_TRUE(sample.prompt_text.ends_with("<think>\n\n</think>\n\n"));
  EXPECT_EQ(sample.ids.front(), 151644);
  EXPECT_EQ(sample.budget, 20);
  options.prompt = PromptForm::chat_thinking;
  options.max_new = -1;
  const NiahSample thinking = make_niah_sample(NiahTask::single_1, 512, 0, options, corpora(), qwen3_tokenizer());
  EXPECT_TRUE(thinking.answer_prefix.empty());
  EXPECT_TRUE(thinking.prompt_text.ends_with("<|im_start|>assistant\n"));
  EXPECT_EQ(thinking.budget, 128);
  options.chat_wrapper = "no slot";
  EXPECT_THROW(make_niah_sample(NiahTask::single_1, 512, 0, options, corpora(), qwen3_tokenizer()), UserError);
  options.chat_wrapper = "[INST] {task} [/INST]";
  EXPECT_TRUE(make_niah_sample(NiahTask::single_1, 512, 0, options, corpora(), qwen3_tokenizer())
                  .prompt_text.starts_with("[INST] A"));
}

// What cannot fit is refused with the shortest length, and that length works.
TEST(NiahSamples, RefusalsNameALengthThatWorks) {
  for (const NiahTask task : all_niah_tasks) {
    const auto reason = builder(nano_tokenizer()).unfit_reason(task, 90, 10);
    ASSERT_TRUE(reason.has_value());
    const std::string mark = "shortest length for all 10 samples: ";
    ASSERT_NE(reason->find(mark), std::string::npos) << *reason;
    const std::int64_t shortest = std::stoll(reason->substr(reason->find(mark) + mark.size()));
    EXPECT_FALSE(builder(nano_tokenizer()).unfit_reason(task, shortest, 10).has_value());
    EXPECT_TRUE(builder(nano_tokenizer()).unfit_reason(task, shortest - 1, 10).has_value());
    for (std::int64_t index = 0; index < 10; ++index) {
      const NiahSample sample = builder(nano_tokenizer()).sample(task, shortest, index);
      EXPECT_LE(size_of(sample.ids) + sample.budget, shortest);
    }
    EXPECT_THROW(builder(nano_tokenizer()).sample(task, 60, 0), UserError);
  }
}

TEST(NiahSamples, EssayTasksRefuseWithoutAText) {
  Corpora bare = corpora();
  bare.essay.clear();
  const NiahBuilder without(bare, nano_tokenizer(), {});
  EXPECT_NO_THROW(without.sample(NiahTask::single_1, 512, 0));
  try {
    without.sample(NiahTask::single_2, 512, 0);
    FAIL() << "an essay task was built without a text";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("tools/fetch_essay.py"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--haystack"), std::string::npos);
  }
}

TEST(NiahSamples, ShortTextsRepeatAndSaySo) {
  Corpora small = corpora();
  small.essay = "It was a bright cold morning. The harbour lay still, under a thin mist";
  const NiahSample sample = make_niah_sample(NiahTask::single_2, 1024, 0, {}, small, nano_tokenizer());
  EXPECT_GT(sample.essay_repeats, 20);
  EXPECT_TRUE(sample.counts_added_up);
}

}  // namespace
}  // namespace hydra::data
