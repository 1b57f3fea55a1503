#pragma once
// One pass over a tokenizer.json: the vocabulary and the merges, hundreds of thousands of entries, go into flat arrays;
// all the rest, small, into a JSON value.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydra::text {

// Strings end to end in one buffer.
class StringList {
 public:
  void add(std::string_view text) {
    bytes_.append(text);
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

class TokenizerSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  nlohmann::json root;         // without model.vocab and model.merges
  StringList vocab_spellings;  // model.vocab
  std::vector<std::int64_t> vocab_ids;
  StringList merge_parts;  // model.merges, two parts each
  bool has_vocab = false, has_merges = false;
  std::string problem;

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(std::int64_t v) override { return in_vocab() ? vocab_id(v) : value(v); }
  bool number_unsigned(std::uint64_t v) override {
    return in_vocab() ? vocab_id(v > INT64_MAX ? -1 : static_cast<std::int64_t>(v)) : value(v);
  }
  bool number_float(double v, const std::string&) override { return value(v); }
  bool string(std::string& v) override { return in_merges() ? merge_text(v) : value(v); }
  bool binary(nlohmann::json::binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override;
  bool key(std::string& v) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return fail("not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Part { rest, vocab, merges, one_merge };
  bool in_vocab() const { return part_ == Part::vocab; }
  bool in_merges() const { return part_ == Part::merges || part_ == Part::one_merge; }
  bool fail(std::string message) {
    problem = std::move(message);
    return false;
  }
  bool at_model_key(std::string_view name) const;
  bool value(nlohmann::json v);
  bool open(nlohmann::json container);
  bool vocab_id(std::int64_t id);
  bool merge_text(std::string_view text);

  Part part_ = Part::rest;
  std::vector<nlohmann::json*> open_;  // containers from the root down
  std::vector<std::string> keys_;      // the last key of each open container
  int merge_size_ = 0;
};

}  // namespace hydra::text
