// hydrahead generate: text from prompts or chat, streamed to standard output.

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "gdn_kernel_option.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/model/device.hpp"
#include "hydrahead/model/generate.hpp"
#include "hydrahead/text/chat_template.hpp"
#include "hydrahead/text/tokenizer.hpp"
#include "option_checks.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::string model, device = "auto", precision = "auto", system, state = "fp32";
  std::vector<std::string> prompts, files;
  bool chat = false, no_thinking = false, no_log_scale = false;
  model::GenerateOptions generate;
};

std::vector<std::string> prompt_texts(const Options& options) {
  std::vector<std::string> texts = options.prompts;
  for (const std::string& file : options.files) {
    texts.push_back(read_file(file));
  }
  HYDRA_REQUIRE(!texts.empty(), "generate: found no prompt, expected --prompt TEXT or --file FILE");
  if (!options.chat) {
    HYDRA_REQUIRE(options.system.empty() && !options.no_thinking, "generate: --system and --no-thinking need --chat");
    return texts;
  }
  for (std::string& content : texts) {
    Json messages = Json::array();
    if (!options.system.empty()) {
      messages.push_back({{"role", "system"}, {"content", options.system}});
    }
    messages.push_back({{"role", "user"}, {"content", content}});
    content =
        text::render_chat(messages, nullptr, {.add_generation_prompt = true, .enable_thinking = !options.no_thinking});
  }
  return texts;
}

void run(Options& options) {
  const std::vector<std::string> texts = prompt_texts(options);
  const model::LoadOptions load = model::inference_options(options.device, options.precision);
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model);
  const model::Model model = model::load_model(options.model, load);
  options.generate.stop_ids = model.config.base.stop_ids;
  options.generate.state_type = options.state == "bf16" ? model::StateType::bf16 : model::StateType::fp32;
  options.generate.log_scale = !options.no_log_scale;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& prompt : texts) {
    prompts.push_back(tokenizer.encode(prompt, {.add_special_tokens = true}));
  }
  // One prompt streams; several would interleave, so they are printed one after the other at the end.
  text::StreamDecoder stream(tokenizer, true);
  if (prompts.size() == 1) {
    options.generate.on_token = [&](std::size_t, std::int32_t token) {
      std::cout << stream.push(token) << std::flush;
      return true;
    };
  }
  const auto outputs = model::generate(model, prompts, options.generate);
  if (prompts.size() == 1) {
    std::cout << stream.finish() << "\n";
    return;
  }
  for (std::size_t p = 0; p < outputs.size(); ++p) {
    std::cout << "--- prompt " << p << "\n" << tokenizer.decode(outputs[p], true) << "\n";
  }
}

}  // namespace

void add_generate(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("generate", "Greedy or sampled text from prompts or chat");
  const auto options = std::make_shared<Options>();
  verb->add_option("--model", options->model, "Teacher or hybrid directory")->required();
  verb->add_option("--prompt", options->prompts, "Prompt text; several are generated as one batch");
  verb->add_option("--file", options->files, "File whose whole content is a prompt");
  verb->add_flag("--chat", options->chat, "Wrap each prompt as a user message of Qwen3's chat form");
  verb->add_option("--system", options->system, "System message (with --chat)");
  verb->add_flag("--no-thinking", options->no_thinking, "Open the answer with an empty thinking block (with --chat)");
  verb->add_option("--max-new", options->generate.max_new, "New tokens at most")->check(integer_from(0, 1 << 24));
  verb->add_option("--temperature", options->generate.temperature, "0: greedy")->check(number_from(0));
  verb->add_option("--top-k", options->generate.top_k, "0: off")->check(integer_from(0));
  verb->add_option("--top-p", options->generate.top_p, "1: off")->check(number_from(0, 1));
  verb->add_option("--seed", options->generate.seed, "Draws depend on seed, prompt and step only")
      ->check(integer_from(0));
  verb->add_option("--prefill-chunk", options->generate.prefill_chunk, "Rows a prefill chunk")->check(integer_from(1));
  verb->add_flag("--no-log-scale", options->no_log_scale,
                 "Do not scale the queries of full-attention heads by position");
  verb->add_option("--state-dtype", options->state, "fp32 | bf16")->check(one_of({"fp32", "bf16"}));
  verb->add_option("--device", options->device, "auto | cpu | cuda");
  verb->add_option("--precision", options->precision, "auto | fp32 | bf16 | fp64");
  add_gdn_kernel_option(*verb);
  verb->callback([options] { run(*options); });
}

}  // namespace hydra::tools
