#include "hydrahead/text/tokenizer_json.hpp"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tokenizer_sax.hpp"

namespace hydra::text {
namespace {

using json = nlohmann::json;
using Path = const std::string&;

// GPT-2's split, which ByteLevel runs when use_regex is true.
constexpr const char* gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Refusal {  // thrown inside this file only
  std::string message;
};

[[noreturn]] void refuse(Path path, const std::string& found, const std::string& expected) {
  throw Refusal{path + ": found " + found + ", expected " + expected};
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 100 ? text : text.substr(0, valid_prefix(text.substr(0, 97))) + "...";
}

const json null_value;

const json& field(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? null_value : *found;
}

void require_object(const json& value, Path path, std::initializer_list<std::string_view> known_keys) {
  if (!value.is_object()) {
    refuse(path, shown(value), "an object");
  }
  for (const auto& [key, ignored] : value.items()) {
    if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end()) {
      refuse(path.empty() ? key : path + "." + key, "a field that is not understood", "none of this name");
    }
  }
}

const json& require_array(const json& value, Path path) {
  if (!value.is_array()) {
    refuse(path, shown(value), "an array");
  }
  return value;
}

std::string require_string(const json& value, Path path) {
  if (!value.is_string()) {
    refuse(path, shown(value), "a string");
  }
  return value.get<std::string>();
}

bool flag(const json& object, Path path, const char* key, bool absent) {
  const json& value = field(object, key);
  if (value.is_null()) {
    return absent;
  }
  if (!value.is_boolean()) {
    refuse(path + "." + key, shown(value), "true or false");
  }
  return value.get<bool>();
}

// `value` must be one of the values that change nothing.
void require_one_of(const json& value, Path path, std::initializer_list<json> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) {
    return;
  }
  std::string expected;
  for (const json& choice : allowed) {
    expected += (expected.empty() ? "" : " or ") + choice.dump();
  }
  refuse(path, shown(value), expected);
}

TokenId require_id(const json& value, Path path) {
  const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (id < 0 || id > Vocabulary::max_id) {
    refuse(path, shown(value), "an id from 0 to " + std::to_string(Vocabulary::max_id));
  }
  return static_cast<TokenId>(id);
}

std::string type_of(const json& value, Path path) {
  if (!value.is_object()) {
    refuse(path, shown(value), "an object with a type");
  }
  return require_string(field(value, "type"), path + ".type");
}

// Calls `one` for the value itself, or for each member if it is a Sequence.
template <class One>
void for_each_step(const json& value, Path path, const char* list_key, One&& one) {
  if (value.is_null()) {
    return;
  }
  if (type_of(value, path) != "Sequence") {
    return one(value, path);
  }
  require_object(value, path, {"type", list_key});
  const json& steps = require_array(field(value, list_key), path + "." + list_key);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    one(steps[i], path + "." + list_key + "[" + std::to_string(i) + "]");
  }
}

void read_model(const json& model, const TokenizerSax& lists, TokenizerSpec& spec) {
  require_object(model, "model",
                 {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                  "byte_fallback", "ignore_merges"});
  require_one_of(field(model, "type"), "model.type", {"BPE"});
  require_one_of(field(model, "dropout"), "model.dropout", {nullptr, 0.0});
  require_one_of(field(model, "unk_token"), "model.unk_token", {nullptr});
  require_one_of(field(model, "continuing_subword_prefix"), "model.continuing_subword_prefix", {nullptr, ""});
  require_one_of(field(model, "end_of_word_suffix"), "model.end_of_word_suffix", {nullptr, ""});
  require_one_of(field(model, "byte_fallback"), "model.byte_fallback", {nullptr, false});
  flag(model, "model", "fuse_unk", false);  // without an unknown token it has no effect
  spec.ignore_merges = flag(model, "model", "ignore_merges", false);
  if (!lists.has_vocab || !lists.has_merges) {
    refuse(lists.has_vocab ? "model.merges" : "model.vocab", "nothing", "the lists of a BPE model");
  }

  std::vector<TokenId> findable;
  for (std::size_t i = 0; i < lists.vocab_ids.size(); ++i) {
    const std::string_view spelling = lists.vocab_spellings[i];
    const std::optional<std::string> bytes = bytes_of_spelling(spelling);
    const std::int64_t id = lists.vocab_ids[i];
    if (id < 0 || id > Vocabulary::max_id ||
        !spec.vocabulary.add(static_cast<TokenId>(id), bytes ? std::string_view(*bytes) : spelling)) {
      refuse("model.vocab", "id " + std::to_string(id) + " of " + shown(std::string(spelling)),
             "distinct ids from 0 to " + std::to_string(Vocabulary::max_id));
    }
    if (bytes) {  // an entry outside the byte-level alphabet can be decoded but never arises from text
      findable.push_back(static_cast<TokenId>(id));
    }
  }
  if (!spec.vocabulary.build_index(findable)) {
    refuse("model.vocab", "a token twice", "distinct tokens");
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<TokenId> id = spec.vocabulary.find(std::string(1, static_cast<char>(byte)));
    if (!id) {
      refuse("model.vocab", "no token for byte " + std::to_string(byte), "all 256 single bytes");
    }
    spec.byte_ids[byte] = *id;
  }

  const auto id_of_part = [&](std::size_t part) {
    const std::optional<std::string> bytes = bytes_of_spelling(lists.merge_parts[part]);
    const std::optional<TokenId> id = bytes ? spec.vocabulary.find(*bytes) : std::nullopt;
    if (!id) {
      refuse("model.merges[" + std::to_string(part / 2) + "]", shown(std::string(lists.merge_parts[part])),
             "a token of model.vocab");
    }
    return *id;
  };
  std::unordered_set<std::uint64_t> pairs;
  pairs.reserve(lists.merge_parts.size());
  spec.merges.reserve(lists.merge_parts.size() / 2);
  std::string joined;
  for (std::size_t part = 0; part < lists.merge_parts.size(); part += 2) {
    const TokenId left = id_of_part(part), right = id_of_part(part + 1);
    joined.assign(spec.vocabulary.bytes_of(left)).append(spec.vocabulary.bytes_of(right));
    const std::optional<TokenId> result = spec.vocabulary.find(joined);
    if (!result || !pairs.insert(std::uint64_t(left) << 32 | std::uint64_t(right)).second) {
      refuse("model.merges[" + std::to_string(part / 2) + "]",
             (result ? "the same pair twice: " : "a result that is no token: ") + shown(spelling_of_bytes(joined)),
             "distinct pairs that join to a token of model.vocab");
    }
    spec.merges.push_back({left, right, *result});
  }
}

void read_added_tokens(const json& list, TokenizerSpec& spec) {
  if (list.is_null()) {
    return;
  }
  require_array(list, "added_tokens");
  std::unordered_set<std::string> contents;
  std::unordered_set<TokenId> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = "added_tokens[" + std::to_string(i) + "]";
    require_object(list[i], path, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (flag(list[i], path, key, false)) {
        refuse(path + "." + key, "true", "false");
      }
    }
    AddedToken token{require_id(field(list[i], "id"), path + ".id"),
                     require_string(field(list[i], "content"), path + ".content"),
                     flag(list[i], path, "special", false), flag(list[i], path, "normalized", false)};
    if (token.content.empty() || !contents.insert(token.content).second || !ids.insert(token.id).second) {
      refuse(path, shown(list[i]), "non-empty, distinct contents and distinct ids");
    }
    const std::optional<TokenId> base = spec.vocabulary.find(token.content);
    if (base && *base != token.id) {
      refuse(path + ".id", std::to_string(token.id), std::to_string(*base) + ", as in model.vocab");
    }
    if (!spec.vocabulary.add(token.id, token.content) && spec.vocabulary.bytes_of(token.id) != token.content) {
      refuse(path + ".id", std::to_string(token.id) + " with another content in model.vocab", "the same content");
    }
    spec.added_tokens.push_back(std::move(token));
  }
}

void read_normalizer(const json& value, TokenizerSpec& spec) {
  for_each_step(value, "normalizer", "normalizers", [&](const json& step, Path path) {
    const std::string type = type_of(step, path);
    require_object(step, path, {"type"});
    if (type == "NFC") {
      spec.normal_forms.push_back(NormalForm::nfc);
    } else if (type == "NFD") {
      spec.normal_forms.push_back(NormalForm::nfd);
    } else if (type == "NFKC") {
      spec.normal_forms.push_back(NormalForm::nfkc);
    } else if (type == "NFKD") {
      spec.normal_forms.push_back(NormalForm::nfkd);
    } else {
      refuse(path + ".type", type, "NFC, NFD, NFKC, NFKD or a Sequence of them");
    }
  });
}

void read_pre_tokenizer(const json& value, TokenizerSpec& spec) {
  bool byte_level = false;
  for_each_step(value, "pre_tokenizer", "pretokenizers", [&](const json& step, Path path) {
    const std::string type = type_of(step, path);
    if (byte_level) {
      refuse(path + ".type", type, "nothing behind ByteLevel");
    }
    if (type == "Split") {
      require_object(step, path, {"type", "pattern", "behavior", "invert"});
      const json& pattern = field(step, "pattern");
      require_object(pattern, path + ".pattern", {"Regex"});
      require_one_of(field(step, "behavior"), path + ".behavior", {"Isolated"});
      require_one_of(field(step, "invert"), path + ".invert", {nullptr, false});
      spec.patterns.push_back(require_string(field(pattern, "Regex"), path + ".pattern.Regex"));
    } else if (type == "ByteLevel") {
      require_object(step, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      require_one_of(field(step, "add_prefix_space"), path + ".add_prefix_space", {false});
      if (flag(step, path, "use_regex", true)) {
        spec.patterns.emplace_back(gpt2_pattern);
      }
      byte_level = true;
    } else {
      refuse(path + ".type", type, "Split or ByteLevel");
    }
  });
  if (!byte_level) {
    refuse("pre_tokenizer", shown(value), "ByteLevel as the last step");
  }
}

void read_template(const json& step, Path path, TokenizerSpec& spec) {
  require_object(step, path, {"type", "single", "pair", "special_tokens"});
  const json& special_tokens = field(step, "special_tokens");
  const json& single = require_array(field(step, "single"), path + ".single");
  bool sequence_seen = false;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const std::string item = path + ".single[" + std::to_string(i) + "]";
    require_object(single[i], item, {"SpecialToken", "Sequence"});
    if (single[i].contains("Sequence")) {
      if (sequence_seen || single[i].size() != 1) {
        refuse(item, shown(single[i]), "one Sequence in all");
      }
      sequence_seen = true;
      continue;
    }
    const json& token = field(single[i], "SpecialToken");
    require_object(token, item + ".SpecialToken", {"id", "type_id"});
    const std::string name = require_string(field(token, "id"), item + ".SpecialToken.id");
    const json& entry = special_tokens.is_object() ? field(special_tokens, name.c_str()) : null_value;
    require_object(entry, path + ".special_tokens." + name, {"id", "ids", "tokens"});
    const std::string ids_path = path + ".special_tokens." + name + ".ids";
    for (const json& id : require_array(field(entry, "ids"), ids_path)) {
      const TokenId token_id = require_id(id, ids_path);
      if (!spec.vocabulary.has(token_id)) {
        refuse(ids_path, shown(id), "the id of a token");
      }
      (sequence_seen ? spec.suffix : spec.prefix).push_back(token_id);
    }
  }
  if (!sequence_seen) {
    refuse(path + ".single", shown(single), "one Sequence");
  }
}

void read_post_processor(const json& value, TokenizerSpec& spec) {
  bool template_seen = false;
  for_each_step(value, "post_processor", "processors", [&](const json& step, Path path) {
    const std::string type = type_of(step, path);
    if (type == "TemplateProcessing" && !template_seen) {
      template_seen = true;
      read_template(step, path, spec);
    } else if (type != "ByteLevel") {  // which changes offsets only
      refuse(path + ".type", type, "ByteLevel or one TemplateProcessing");
    }
  });
}

TokenizerSpec read_spec(const json& root, const TokenizerSax& lists) {
  require_object(root, "",
                 {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                  "decoder", "model"});
  require_one_of(field(root, "version"), "version", {"1.0"});
  require_one_of(field(root, "truncation"), "truncation", {nullptr});
  require_one_of(field(root, "padding"), "padding", {nullptr});
  TokenizerSpec spec;
  read_model(field(root, "model"), lists, spec);
  read_added_tokens(field(root, "added_tokens"), spec);
  read_normalizer(field(root, "normalizer"), spec);
  read_pre_tokenizer(field(root, "pre_tokenizer"), spec);
  read_post_processor(field(root, "post_processor"), spec);
  const json& decoder = field(root, "decoder");
  if (type_of(decoder, "decoder") != "ByteLevel") {
    refuse("decoder.type", shown(field(decoder, "type")), "ByteLevel");
  }
  return spec;
}

}  // namespace

Expected<TokenizerSpec> parse_tokenizer_json(std::string_view text) {
  if (text.size() >= std::size_t{1} << 30) {
    return ParseError{"found " + std::to_string(text.size()) + " bytes, expected less than 1 GiB"};
  }
  TokenizerSax lists;
  if (!json::sax_parse(text.begin(), text.end(), &lists)) {
    return ParseError{lists.problem};
  }
  try {
    return read_spec(lists.root, lists);
  } catch (const Refusal& refusal) {
    return ParseError{refusal.message};
  }
}

}  // namespace hydra::text
