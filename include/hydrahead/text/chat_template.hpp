#pragma once
// Qwen3's chat template in code (evaluation.md section 9).

#include <string>
#include <string_view>
#include <vector>

#include "hydrahead/base/json.hpp"

namespace hydra::text {

// `messages` and `tools` as in tests/fixtures/tokenizer/cases.json ("chats"): role, content, tool_calls, ...
struct ChatOptions {
  bool add_generation_prompt = true;
  bool enable_thinking = true;
};
std::string render_chat(const Json& messages, const Json& tools, const ChatOptions& options);

}  // namespace hydra::text
