#pragma once
// Loss by position on held-out token rows: does a model use its long context? The forward runs in chunks with the
// decode state, and the head only on the rows of a chunk, so memory does not grow with length x vocabulary.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/batch.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/generate.hpp"

namespace hydra::eval {

// Predictions made at positions [begin, end) of a document or window.
struct PplBucket {
  std::int64_t begin = 0, end = 0, tokens = 0;
  double loss = 0.0;  // mean negative log-likelihood, nats a token
};

struct PplResult {
  std::string name;                   // what was evaluated
  std::int64_t tokens = 0;            // predicted
  double loss = 0.0;                  // over all of them
  std::vector<PplBucket> buckets;     // 0..64, then doubling; empty ones are left out
  std::optional<double> log_scale_a;  // a of the FA queries' log scale; absent: not scaled
};

struct PplOptions {
  std::int64_t chunk = 8192;  // rows a forward
  model::StateType state_type = model::StateType::fp32;
  bool log_scale = true;  // false: off even where the model has it at inference
};

// Rows may hold several documents; labels below 0 are not counted. Rank r of R takes rows r, r + R, ...; the result is
// the same on every rank. Throws Interrupted when a signal asks to stop.
PplResult measure_perplexity(const std::string& name, const model::Model& model, const std::vector<data::Row>& rows,
                             const PplOptions& options, dist::Communicator& communicator);

// One result for each a (method.md section 4: the constant is chosen after training), on the same rows. UserError for a
// teacher, or a hybrid whose log_scale.mode is off.
std::vector<PplResult> sweep_log_scale(const std::string& name, const model::Model& model,
                                       const std::vector<data::Row>& rows, const PplOptions& options,
                                       const std::vector<double>& values, dist::Communicator& communicator);

Json to_json(const PplResult& result);
PplResult ppl_from_json(const Json& json);
// A column a result: loss and perplexity, then loss by position.
std::string ppl_table(const std::vector<PplResult>& results);

// "64-128".
std::string bucket_label(const PplBucket& bucket);

}  // namespace hydra::eval
