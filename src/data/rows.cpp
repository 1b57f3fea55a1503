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

constexpr std::int64_t borrowed_essay_tokens = 2'000'000;

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

// Essay text for haystacks out of the run's own text: windows spread evenly over it.
std::string borrowed_essay(const TokenWindows& windows, std::int64_t context, const text::Tokenizer& tokenizer) {
  const std::int64_t taken =
      std::min(windows.full_windows(), std::max<std::int64_t>(1, borrowed_essay_tokens / context));
  std::string text;
  for (std::int64_t i = 0; i < taken; ++i) {
    text += tokenizer.decode(windows.window(i * windows.full_windows() / taken).ids, true) + " ";
  }
  return fold_whitespace(text);
}

}  // namespace

std::unique_ptr<RowSource> make_rows(const DataConfig& config, std::int64_t context, Packing packing,
                                     const text::Tokenizer& tokenizer, std::int64_t vocab_size, std::uint64_t seed) {
  const text::TokenId end_token = end_of_document(tokenizer, {});
  std::vector<std::unique_ptr<RowSource>> sources;
  std::vector<double> weights;
  std::string borrowed;
  const bool synthetic = std::any_of(config.sources.begin(), config.sources.end(), [](const auto& entry) {
    return entry.second.weight > 0 && entry.second.synthetic != Synthetic::none;
  });
  Corpora corpora = synthetic ? load_corpora() : Corpora{};
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
    if (synthetic && corpora.essay.empty() && borrowed.empty()) {
      borrowed = borrowed_essay(*windows, context, tokenizer);
    }
    sources.push_back(std::move(windows));
    weights.push_back(source.weight);
  }
  if (synthetic && corpora.essay.empty()) {
    corpora.essay = std::move(borrowed);
    log_info("retrieval rows: no essay text in the cache (tools/fetch_essay.py makes it); haystacks are made of ",
             corpora.essay.empty() ? "noise and needles only" : "the run's own text, noise and needles");
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
