// Puts the sources of a config together into the rows of a run.

#include "hydrahead/data/rows.hpp"

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/data/jsonl_ingest.hpp"
#include "retrieval_rows.hpp"
#include "schedule.hpp"
#include "text_source.hpp"
#include "token_windows.hpp"

namespace hydra::data {
namespace {

constexpr std::int64_t essay_tokens = 2'000'000;  // borrowed from the run's own text
constexpr std::int64_t essay_stretch = 4096;

class MixtureRows : public RowSource {
 public:
  MixtureRows(std::vector<std::unique_ptr<RowSource>> sources, const std::vector<double>& weights, std::uint64_t seed)
      : sources_(std::move(sources)), schedule_(weights, seed) {}
  Row row(std::uint64_t index) const override {
    const MixtureSchedule::Pick pick = schedule_.pick(index);
    return sources_[pick.source]->row(pick.ordinal);
  }

 private:
  std::vector<std::unique_ptr<RowSource>> sources_;
  MixtureSchedule schedule_;
};

// Sources of one run have orders of their own, which do not change when another source joins.
std::uint64_t seed_of(std::uint64_t seed, const std::string& source) {
  const std::string hash = sha256_hex(detail::concat(seed, " ", source));
  return std::stoull(hash.substr(0, 16), nullptr, 16);
}

// About `tokens` tokens of a source's text for haystacks: stretches spread evenly over all of it, documents apart.
std::string borrowed_text(const TokenWindows& windows, std::int64_t tokens, const text::Tokenizer& tokenizer,
                          text::TokenId end_token) {
  const std::int64_t stretches = (windows.tokens() + essay_stretch - 1) / essay_stretch;
  const std::int64_t taken = std::clamp<std::int64_t>(tokens / essay_stretch, 1, stretches);
  std::string text;
  for (std::int64_t i = 0; i < taken; ++i) {
    const std::int64_t begin = i * stretches / taken * essay_stretch;
    const std::vector<std::int32_t> ids = windows.stretch(begin, std::min(begin + essay_stretch, windows.tokens())).ids;
    for (auto from = ids.begin(); from != ids.end();) {
      const auto to = std::find(from, ids.end(), end_token);
      text += tokenizer.decode(std::span(from, to), true) + " ";
      from = to == ids.end() ? to : to + 1;
    }
  }
  return text;
}

}  // namespace

std::unique_ptr<RowSource> make_rows(const DataConfig& config, std::int64_t context, Packing packing,
                                     const text::Tokenizer& tokenizer, std::int64_t vocab_size, std::uint64_t seed) {
  const text::TokenId end_token = end_of_document(tokenizer, {});
  std::vector<std::unique_ptr<RowSource>> sources;
  std::vector<double> weights;
  bool synthetic = false;
  double text_weight = 0;
  for (const auto& [name, source] : config.sources) {
    synthetic = synthetic || (source.weight > 0 && source.synthetic != Synthetic::none);
    text_weight += source.synthetic == Synthetic::none ? source.weight : 0;
  }
  std::string borrowed;
  for (const auto& [name, source] : config.sources) {  // files first: synthetic rows may borrow their text
    if (source.weight == 0 || source.synthetic != Synthetic::none) {
      continue;
    }
    const std::string key = "data.sources." + name;
    auto windows = std::make_unique<TokenWindows>(
        name, open_token_files(key, source.path, source.text_key, tokenizer, end_token, vocab_size), context, packing,
        end_token, seed_of(seed, name));
    HYDRA_REQUIRE(windows->full_windows() > 0, key, ": ", source.path.string(), " holds ", windows->tokens(),
                  " tokens; one row needs ", context, " (the stage's context)");
    if (synthetic) {
      const double share = source.weight / text_weight;
      borrowed += borrowed_text(*windows, static_cast<std::int64_t>(share * essay_tokens), tokenizer, end_token);
    }
    sources.push_back(std::move(windows));
    weights.push_back(source.weight);
  }
  Corpora corpora = synthetic ? load_corpora() : Corpora{};
  if (synthetic) {
    // The cached essay is the haystack of `eval niah`, and parts of it may be held out: only without text of the run.
    const char* origin = corpora.essay.empty() ? "none (no text source, and tools/fetch_essay.py was not run)"
                                               : "the cached essay, as there is no text source";
    if (std::string own = fold_whitespace(borrowed); !own.empty()) {
      corpora.essay = std::move(own);
      origin = "the run's own text";
    }
    log_info("retrieval rows: essay text is ", origin, ", ", corpora.essay.size(), " bytes");
  }
  for (const auto& [name, source] : config.sources) {
    if (source.weight == 0 || source.synthetic == Synthetic::none) {
      continue;
    }
    HYDRA_REQUIRE(tokenizer.id_limit() <= vocab_size, "data.sources.", name, ": the tokenizer has ids up to ",
                  tokenizer.id_limit() - 1, "; the model has ", vocab_size, " embedding rows");
    sources.push_back(
        std::make_unique<RetrievalRows>(name, corpora, context, packing, tokenizer, end_token, seed_of(seed, name)));
    weights.push_back(source.weight);
  }
  HYDRA_REQUIRE(!sources.empty(), "data.sources: found ", config.sources.size(),
                " sources with a weight above 0 and none to read; expected at least one");
  return std::make_unique<MixtureRows>(std::move(sources), weights, seed);
}

std::vector<Row> validation_rows(const ValidationConfig& config, std::int64_t context, Packing packing,
                                 const text::Tokenizer& tokenizer, std::int64_t vocab_size) {
  std::vector<Row> rows;
  if (config.path.empty()) {
    return rows;
  }
  const text::TokenId end_token = end_of_document(tokenizer, {});
  const TokenWindows windows(
      "validation", open_token_files("data.validation", config.path, config.text_key, tokenizer, end_token, vocab_size),
      context, packing, end_token, 0);
  for (std::int64_t at = 0; at < std::min(config.tokens, windows.tokens()); at += context) {
    rows.push_back(windows.window(at / context));
  }
  return rows;
}

}  // namespace hydra::data
