#pragma once
// tokenizer.json texts made in the test: all 256 bytes, some merges, Qwen3's or Llama-3's pipeline.

#include <string>
#include <utility>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/text/vocabulary.hpp"

namespace hydra::test {

inline Json added_token(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Ids 0-255 the bytes, 256 "th", 257 "the", 258 " the", 259 <|endoftext|>, 260 <|im_start|>, 261 <|im_end|>, and
// `extra`.
inline Json small_tokenizer(const std::vector<std::pair<int, std::string>>& extra = {}) {
  const std::string space = text::spelling_of_bytes(" ");
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[text::spelling_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  vocab["th"] = 256;
  vocab["the"] = 257;
  vocab[space + "the"] = 258;
  Json added = {added_token(259, "<|endoftext|>"), added_token(260, "<|im_start|>"), added_token(261, "<|im_end|>")};
  for (const auto& [id, content] : extra) {
    added.push_back(added_token(id, content));
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const char* pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", Json::array({"t h", "th e", space + " the"})}}}};
}

// Llama-3's choices: no normalizer, groups of up to three digits, whole pre-tokens from the vocabulary, a first token.
inline Json llama3_style_tokenizer() {
  Json root = small_tokenizer();
  root["added_tokens"] = {added_token(300, "<|begin_of_text|>"), added_token(301, "<|end_of_text|>")};
  root["normalizer"] = nullptr;
  root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  root["model"]["ignore_merges"] = true;
  root["model"]["vocab"]["123"] = 262;  // reachable by no merge
  root["model"]["merges"] = Json::array({Json::array({"t", "h"}), Json::array({"th", "e"})});
  const Json begin = {{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}};
  const Json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  root["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {root["decoder"],
        {{"type", "TemplateProcessing"},
         {"single", {begin, sequence}},
         {"pair", Json::array()},
         {"special_tokens",
          {{"<|begin_of_text|>",
            {{"id", "<|begin_of_text|>"}, {"ids", {300}}, {"tokens", {"<|begin_of_text|>"}}}}}}}}}};
  return root;
}

}  // namespace hydra::test
