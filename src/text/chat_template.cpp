// Qwen3's chat template (its Jinja text in tokenizer_config.json), written out in code.

#include "hydrahead/text/chat_template.hpp"

#include "hydrahead/base/error.hpp"

namespace hydra::text {
namespace {

constexpr std::string_view tools_before =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view tools_after =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call><|im_end|>\n";

std::string_view strip_left(std::string_view text) {
  const std::size_t begin = text.find_first_not_of('\n');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view strip_right(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);  // npos + 1 = 0
}

// JSON as Python's json.dumps writes it: ", " and ": " between the parts.
void append_json(const Json& value, std::string& out) {
  if (value.is_object() || value.is_array()) {
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& [key, member] : value.items()) {
      out += first ? "" : ", ";
      first = false;
      if (value.is_object()) {
        out += Json(key).dump() + ": ";
      }
      append_json(member, out);
    }
    out += value.is_object() ? '}' : ']';
  } else {
    out += value.dump();
  }
}

std::string_view text_field(const Json& message, std::size_t index, const char* key) {
  const auto found = message.find(key);
  HYDRA_REQUIRE(found != message.end() && found->is_string(), "messages[", index, "].", key, ": found ",
                found == message.end() ? "nothing" : found->dump(), ", expected a string");
  return found->get_ref<const std::string&>();
}

bool is_tool_response(std::string_view content) {
  return content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
}

void append_tool_calls(const Json& calls, std::size_t message, bool after_content, std::string& out) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (after_content || i > 0) {
      out += '\n';
    }
    const Json& call = calls[i].contains("function") ? calls[i]["function"] : calls[i];
    HYDRA_REQUIRE(call.is_object() && call.contains("name") && call["name"].is_string() && call.contains("arguments"),
                  "messages[", message, "].tool_calls[", i, "]: found ", call.dump(),
                  ", expected an object with name and arguments");
    out += "<tool_call>\n{\"name\": \"" + call["name"].get<std::string>() + "\", \"arguments\": ";
    if (call["arguments"].is_string()) {
      out += call["arguments"].get<std::string>();
    } else {
      append_json(call["arguments"], out);
    }
    out += "}\n</tool_call>";
  }
}

// `open_turn`: the turn comes after the last question of the user, so its reasoning stays.
void append_assistant(const Json& message, std::size_t index, bool open_turn, bool last, std::string& out) {
  const std::string_view whole = text_field(message, index, "content");
  std::string_view content = whole, reasoning;
  const auto field = message.find("reasoning_content");
  if (field != message.end() && !field->is_null()) {
    reasoning = text_field(message, index, "reasoning_content");
  } else if (const std::size_t end = whole.find("</think>"); end != std::string_view::npos) {
    constexpr std::string_view open = "<think>", close = "</think>";
    content = strip_left(whole.substr(whole.rfind(close) + close.size()));
    reasoning = strip_right(whole.substr(0, end));
    if (const std::size_t begin = reasoning.rfind(open); begin != std::string_view::npos) {
      reasoning.remove_prefix(begin + open.size());
    }
    reasoning = strip_left(reasoning);
  }
  out += "<|im_start|>assistant\n";
  if (open_turn && (last || !reasoning.empty())) {
    out.append("<think>\n").append(strip_right(strip_left(reasoning))).append("\n</think>\n\n");
    out.append(strip_left(content));
  } else {
    out.append(content);
  }
  if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array()) {
    append_tool_calls(*calls, index, !content.empty(), out);
  }
  out += "<|im_end|>\n";
}

}  // namespace

std::string render_chat(const Json& messages, const Json& tools, const ChatOptions& options) {
  HYDRA_REQUIRE(messages.is_array() && !messages.empty(), "messages: found ", messages.dump(),
                ", expected a non-empty array of objects with role and content");
  const auto role = [&](std::size_t i) { return text_field(messages[i], i, "role"); };
  std::string out;
  const bool system_first = role(0) == "system";
  if (tools.is_array() && !tools.empty()) {
    out += "<|im_start|>system\n";
    if (system_first) {
      out.append(text_field(messages[0], 0, "content")).append("\n\n");
    }
    out += tools_before;
    for (const Json& tool : tools) {
      out += '\n';
      append_json(tool, out);
    }
    out += tools_after;
  } else if (system_first) {
    out.append("<|im_start|>system\n").append(text_field(messages[0], 0, "content")).append("<|im_end|>\n");
  }

  std::size_t last_query = messages.size() - 1;
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (role(i) == "user" && !is_tool_response(text_field(messages[i], i, "content"))) {
      last_query = i;
      break;
    }
  }

  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const bool last = i + 1 == messages.size();
    if (role(i) == "user" || (role(i) == "system" && i > 0)) {
      out.append("<|im_start|>").append(role(i)).append("\n").append(text_field(message, i, "content"));
      out += "<|im_end|>\n";
    } else if (role(i) == "assistant") {
      append_assistant(message, i, i > last_query, last, out);
    } else if (role(i) == "tool") {
      if (i == 0 || role(i - 1) != "tool") {
        out += "<|im_start|>user";
      }
      out.append("\n<tool_response>\n").append(text_field(message, i, "content")).append("\n</tool_response>");
      if (last || role(i + 1) != "tool") {
        out += "<|im_end|>\n";
      }
    } else {
      HYDRA_REQUIRE(role(i) == "system", "messages[", i, "].role: found '", role(i),
                    "', expected system, user, assistant or tool");
    }
  }
  if (options.add_generation_prompt) {
    out += "<|im_start|>assistant\n";
    if (!options.enable_thinking) {
      out += "<think>\n\n</think>\n\n";
    }
  }
  return out;
}

}  // namespace hydra::text
