#include "tokenizer_sax.hpp"

namespace hydra::text {
namespace {

constexpr std::size_t max_depth = 64;
constexpr const char* vocab_form = "model.vocab: expected an object of token: id";
constexpr const char* merges_form = "model.merges: expected an array of \"left right\" or [\"left\", \"right\"]";

}  // namespace

bool TokenizerSax::at_model_key(std::string_view name) const {
  return open_.size() == 2 && keys_[0] == "model" && keys_[1] == name;
}

bool TokenizerSax::value(nlohmann::json v) {
  if (part_ != Part::rest) {
    return fail(in_vocab() ? vocab_form : merges_form);
  }
  if (at_model_key("vocab") || at_model_key("merges")) {
    return fail(keys_[1] == "vocab" ? vocab_form : merges_form);
  }
  if (open_.empty()) {
    root = std::move(v);
  } else if (open_.back()->is_array()) {
    open_.back()->push_back(std::move(v));
  } else {
    (*open_.back())[keys_.back()] = std::move(v);
  }
  return true;
}

bool TokenizerSax::open(nlohmann::json container) {
  if (open_.size() == max_depth) {
    return fail("nesting is deeper than 64");
  }
  if (!value(std::move(container))) {
    return false;
  }
  nlohmann::json* added = &root;
  if (!open_.empty()) {
    added = open_.back()->is_array() ? &open_.back()->back() : &(*open_.back())[keys_.back()];
  }
  open_.push_back(added);
  keys_.emplace_back();
  return true;
}

bool TokenizerSax::start_object(std::size_t) {
  if (part_ == Part::rest && at_model_key("vocab")) {
    part_ = Part::vocab;
    has_vocab = true;
    return true;
  }
  return open(nlohmann::json::object());
}

bool TokenizerSax::key(std::string& v) {
  if (in_vocab()) {
    vocab_spellings.add(v);
    return true;
  }
  const bool taken =
      open_.size() == 2 && keys_[0] == "model" && ((v == "vocab" && has_vocab) || (v == "merges" && has_merges));
  if (taken || open_.back()->contains(v)) {
    return fail("duplicate key \"" + v + "\"");
  }
  keys_.back() = v;
  return true;
}

bool TokenizerSax::end_object() {
  if (in_vocab()) {
    part_ = Part::rest;
    return true;
  }
  open_.pop_back();
  keys_.pop_back();
  return true;
}

bool TokenizerSax::start_array(std::size_t) {
  if (part_ == Part::rest && at_model_key("merges")) {
    part_ = Part::merges;
    has_merges = true;
    return true;
  }
  if (part_ == Part::merges) {
    part_ = Part::one_merge;
    merge_size_ = 0;
    return true;
  }
  return open(nlohmann::json::array());
}

bool TokenizerSax::end_array() {
  if (part_ == Part::one_merge) {
    part_ = Part::merges;
    return merge_size_ == 2 || fail(merges_form);
  }
  if (part_ == Part::merges) {
    part_ = Part::rest;
    return true;
  }
  open_.pop_back();
  keys_.pop_back();
  return true;
}

bool TokenizerSax::vocab_id(std::int64_t id) {
  vocab_ids.push_back(id);
  return true;
}

bool TokenizerSax::merge_text(std::string_view text) {
  if (part_ == Part::one_merge) {
    merge_parts.add(text);
    return ++merge_size_ <= 2 || fail(merges_form);
  }
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return fail(merges_form);
  }
  merge_parts.add(text.substr(0, space));
  merge_parts.add(text.substr(space + 1));
  return true;
}

}  // namespace hydra::text
