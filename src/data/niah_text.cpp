#include "niah_text.hpp"

#include "hydrahead/base/error.hpp"

namespace hydra::data {
namespace {

constexpr NiahSpec specs[] = {
    {"niah_single_1", HaystackKind::noise, ItemKind::words, ItemKind::numbers, 1, 1, 1},
    {"niah_single_2", HaystackKind::essay, ItemKind::words, ItemKind::numbers, 1, 1, 1},
    {"niah_single_3", HaystackKind::essay, ItemKind::words, ItemKind::uuids, 1, 1, 1},
    {"niah_multikey_1", HaystackKind::essay, ItemKind::words, ItemKind::numbers, 4, 1, 1},
    {"niah_multikey_2", HaystackKind::needle, ItemKind::words, ItemKind::numbers, 1, 1, 1},
    {"niah_multikey_3", HaystackKind::needle, ItemKind::uuids, ItemKind::uuids, 1, 1, 1},
    {"niah_multivalue", HaystackKind::essay, ItemKind::words, ItemKind::numbers, 1, 4, 1},
    {"niah_multiquery", HaystackKind::essay, ItemKind::words, ItemKind::numbers, 4, 1, 4},
};

std::string_view plural_name(ItemKind kind) {
  switch (kind) {
    case ItemKind::words: return "words";
    case ItemKind::numbers: return "numbers";
    case ItemKind::uuids: return "uuids";
  }
  return "";
}

}  // namespace

const NiahSpec& niah_spec(NiahTask task) { return specs[static_cast<std::size_t>(task)]; }

std::string_view task_name(NiahTask task) { return niah_spec(task).name; }

std::optional<NiahTask> task_of(std::string_view name) {
  for (const NiahTask task : all_niah_tasks) {
    if (task_name(task) == name) {
      return task;
    }
  }
  return std::nullopt;
}

const std::string& noise_line() {
  static const std::string line = [] {
    std::string text;
    for (const std::string_view sentence : noise_sentences) {
      text.append(text.empty() ? "" : " ").append(sentence);
    }
    return text;
  }();
  return line;
}

NiahPrompt niah_prompt(ItemKind value, bool plural, const std::vector<std::string>& query) {
  const std::string many(plural_name(value));
  const std::string one = many.substr(0, many.size() - 1);
  const std::string keys = join_with_and(query);
  if (plural) {
    return {"Some special magic " + many +
                " are hidden within the following text. Make sure to memorize it. I will quiz you about the " + many +
                " afterwards.\n",
            "What are all the special magic " + many + " for " + keys + " mentioned in the provided text?",
            " The special magic " + many + " for " + keys + " mentioned in the provided text are"};
  }
  return {"A special magic " + one +
              " is hidden within the following text. Make sure to memorize it. I will quiz you about the " + one +
              " afterwards.\n",
          "What is the special magic " + one + " for " + keys + " mentioned in the provided text?",
          " The special magic " + one + " for " + keys + " mentioned in the provided text is"};
}

std::string needle_sentence(ItemKind value, std::string_view key, std::string_view number) {
  std::string text = "One of the special magic ";
  text += plural_name(value);
  text += " for ";
  text += key;
  text += " is: ";
  text += number;
  text += '.';
  return text;
}

std::string join_with_and(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += i == 0 ? "" : i + 1 == items.size() ? ", and " : ", ";
    text += items[i];
  }
  return text;
}

ChatWrapper chat_wrapper(const NiahOptions& options) {
  constexpr std::string_view slot = "{task}";
  if (!options.chat_wrapper.empty()) {
    const std::size_t at = options.chat_wrapper.find(slot);
    HYDRA_REQUIRE(at != std::string::npos && options.chat_wrapper.find(slot, at + 1) == std::string::npos,
                  "chat wrapper: holds '", options.chat_wrapper, "'; expected a text with {task} in it once");
    return {options.chat_wrapper.substr(0, at), options.chat_wrapper.substr(at + slot.size())};
  }
  switch (options.prompt) {
    case PromptForm::base: return {};
    case PromptForm::chat: return {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
    case PromptForm::chat_thinking: return {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};
  }
  return {};
}

}  // namespace hydra::data
