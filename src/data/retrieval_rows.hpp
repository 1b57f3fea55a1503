#pragma once
// Synthetic training rows in the form of the NIAH tasks: needles in noise, essay text or other needles, and several
// questions with their answers behind one haystack, so that more than a handful of a row's tokens depend on retrieval.
// Samples of evaluation come from other random streams, but have the same wording: a model trained on these rows has
// seen the tasks' form.

#include <memory>
#include <string>

#include "essay_text.hpp"
#include "hydrahead/base/random.hpp"
#include "hydrahead/data/batch.hpp"
#include "hydrahead/data/corpora.hpp"
#include "hydrahead/data/data_config.hpp"

namespace hydra::data {

// Half of the rows are one document of `context` tokens, the others several of 128 tokens and more; each ends with the
// end token.
class RetrievalRows : public RowSource {
 public:
  // corpora.essay may be empty: then there are no essay haystacks. `tokenizer` must outlive the rows.
  RetrievalRows(std::string name, Corpora corpora, std::int64_t context, Packing packing,
                const text::Tokenizer& tokenizer, text::TokenId end_token, std::uint64_t seed);
  Row row(std::uint64_t index) const override;

 private:
  std::vector<text::TokenId> document(RandomStream& random, std::int64_t length) const;

  std::string name_;
  Corpora corpora_;
  std::unique_ptr<EssayText> essay_;
  std::int64_t context_;
  Packing packing_;
  const text::Tokenizer& tokenizer_;
  text::TokenId end_token_;
  std::uint64_t seed_;
};

}  // namespace hydra::data
