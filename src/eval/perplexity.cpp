#include "hydrahead/eval/perplexity.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "format.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "hydrahead/model/decode_state.hpp"
#include "hydrahead/ops/chunked_loss.hpp"

namespace hydra::eval {
namespace {

constexpr std::int64_t first_bucket = 64;

std::string number_text(double value, int digits) { return std::isfinite(value) ? fixed(value, digits) : "not finite"; }

// One document or window.
struct Document {
  const std::int32_t* ids;
  const std::int32_t* labels;
  std::int64_t length;
};

// Of every size-th row, from row `rank` on.
std::vector<Document> documents_of(const std::vector<data::Row>& rows, int rank, int size) {
  std::vector<Document> documents;
  for (auto r = static_cast<std::size_t>(rank); r < rows.size(); r += static_cast<std::size_t>(size)) {
    const data::Row& row = rows[r];
    std::int64_t offset = 0;
    for (const std::int64_t length : row.lengths) {
      documents.push_back({row.ids.data() + offset, row.labels.data() + offset, length});
      offset += length;
    }
  }
  return documents;
}

constexpr std::int64_t most_buckets = 40;

// 0: positions below 64; b: from 64 2^(b-1) to 64 2^b.
std::int64_t bucket_of(std::int64_t position) {
  std::int64_t bucket = 0;
  for (std::int64_t end = first_bucket; position >= end; end *= 2) {
    ++bucket;
  }
  return bucket;
}

class Losses {
 public:
  // hidden [N, D] of rows whose labels and positions are given; rows without a label are left out.
  void add(const model::Model& model, const at::Tensor& hidden, const std::vector<std::int64_t>& labels,
           const std::vector<std::int64_t>& positions) {
    std::vector<std::int64_t> rows, counted;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] >= 0) {
        rows.push_back(static_cast<std::int64_t>(i));
        counted.push_back(labels[i]);
      }
    }
    if (rows.empty()) {
      return;
    }
    const at::Device device = hidden.device();
    const at::Tensor chosen = hidden.index_select(0, at::tensor(rows, at::kLong).to(device));
    const at::Tensor logprobs =
        ops::token_logprobs(chosen, model.head, at::tensor(counted, at::kLong).to(device)).to(at::kCPU, at::kDouble);
    double* sums = sums_.mutable_data_ptr<double>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t bucket = bucket_of(positions[static_cast<std::size_t>(rows[i])]);
      sums[2 * bucket] -= logprobs.const_data_ptr<double>()[i];
      sums[2 * bucket + 1] += 1;
    }
  }

  // Over all ranks.
  PplResult result(const std::string& name, const at::Device& device, dist::Communicator& communicator) const {
    at::Tensor shared = sums_.to(device, /*non_blocking=*/false, /*copy=*/true);
    communicator.all_reduce_sum(shared);
    const at::Tensor host = shared.to(at::kCPU);
    const double* sums = host.const_data_ptr<double>();
    PplResult result;
    result.name = name;
    double total = 0;
    for (std::int64_t bucket = 0; bucket < most_buckets; ++bucket) {
      const double loss = sums[2 * bucket], tokens = sums[2 * bucket + 1];
      if (tokens > 0) {
        const std::int64_t end = first_bucket << bucket;
        result.buckets.push_back({bucket == 0 ? 0 : end / 2, end, static_cast<std::int64_t>(tokens), loss / tokens});
        result.tokens += static_cast<std::int64_t>(tokens);
        total += loss;
      }
    }
    HYDRA_REQUIRE(result.tokens > 0, name, ": the text for perplexity holds no token to predict");
    result.loss = total / static_cast<double>(result.tokens);
    return result;
  }

 private:
  at::Tensor sums_ = at::zeros({most_buckets, 2}, at::kDouble);  // negative log-likelihood, tokens
};

// Rows [begin, end) of one document, after what `state` holds of it; without a state, whole documents.
void add_rows(Losses& losses, const model::Model& model, const std::vector<Document>& documents, std::int64_t begin,
              std::int64_t end, const model::ForwardOptions& forward) {
  std::vector<std::int64_t> ids, labels, positions, lengths;
  for (const Document& document : documents) {
    const std::int64_t last = std::min(end, document.length);
    for (std::int64_t i = begin; i < last; ++i) {
      ids.push_back(document.ids[i]);
      labels.push_back(document.labels[i]);
      positions.push_back(i);
    }
    lengths.push_back(last - begin);
  }
  const at::Device device = model.embed.device();
  const std::vector<std::int64_t> start(lengths.size(), begin);
  const ops::Sequences sequences = ops::make_sequences(lengths, device, start);
  losses.add(model, model::forward_hidden(model, at::tensor(ids, at::kLong).to(device), sequences, forward), labels,
             positions);
}

}  // namespace

PplResult measure_perplexity(const std::string& name, const model::Model& model, const std::vector<data::Row>& rows,
                             const PplOptions& options, dist::Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  const std::vector<Document> documents = documents_of(rows, communicator.rank(), communicator.size());
  model::ForwardOptions forward;
  forward.log_scale = options.log_scale && model::log_scale_at_inference(model);
  std::int64_t total = 0, done = 0;
  for (const Document& document : documents) {
    total += document.length;
  }
  std::optional<metrics::Progress> progress;
  if (communicator.rank() == 0) {
    progress.emplace(metrics::ProgressOptions{.title = "perplexity " + name, .unit = "tokens", .total = total});
  }
  Losses losses;
  const auto step = [&](std::int64_t tokens) {
    done += tokens;
    if (progress) {
      progress->update(done);
    }
    if (stop_requested()) {
      throw Interrupted("perplexity stopped by a signal");
    }
  };
  std::vector<Document> group;
  std::int64_t group_tokens = 0;
  const auto flush = [&] {
    if (!group.empty()) {
      add_rows(losses, model, group, 0, options.chunk, forward);
      step(group_tokens);
    }
    group.clear();
    group_tokens = 0;
  };
  for (const Document& document : documents) {
    if (document.length > options.chunk) {
      model::DecodeState state = model::make_decode_state(model, 1, options.state_type);
      model::ForwardOptions chunked = forward;
      chunked.state = &state;
      for (std::int64_t begin = 0; begin < document.length; begin += options.chunk) {
        const std::int64_t end = std::min(document.length, begin + options.chunk);
        add_rows(losses, model, {document}, begin, end, chunked);
        state.length[0] = end;
        step(end - begin);
      }
      continue;
    }
    if (group_tokens + document.length > options.chunk) {
      flush();
    }
    group.push_back(document);
    group_tokens += document.length;
  }
  flush();
  if (progress) {
    progress->finish();
  }
  PplResult result = losses.result(name, model.embed.device(), communicator);
  if (forward.log_scale) {
    result.log_scale_a = model.config.hybrid->fa.log_scale.a;
  }
  return result;
}

std::vector<PplResult> sweep_log_scale(const std::string& name, const model::Model& model,
                                       const std::vector<data::Row>& rows, const PplOptions& options,
                                       const std::vector<double>& values, dist::Communicator& communicator) {
  HYDRA_REQUIRE(model::log_scale_at_inference(model), name, ": found ",
                model.is_hybrid() ? "log_scale.mode off" : "a teacher",
                ", expected a hybrid with a log scale for --log-scale-a");
  std::vector<PplResult> results;
  for (const double a : values) {
    HYDRA_REQUIRE(a > 1, "--log-scale-a: found ", a, ", expected values above 1");
    model::Model scaled = model;  // shares the tensors
    scaled.config.hybrid->fa.log_scale.a = a;
    results.push_back(measure_perplexity(detail::concat("a = ", a), scaled, rows, options, communicator));
  }
  return results;
}

std::string bucket_label(const PplBucket& bucket) { return detail::concat(bucket.begin, "-", bucket.end); }

Json to_json(const PplResult& result) {
  Json json = {{"name", result.name},
               {"tokens", result.tokens},
               {"loss", json_number(result.loss)},
               {"perplexity", json_number(std::exp(result.loss))},
               {"log_scale_a", result.log_scale_a ? Json(*result.log_scale_a) : Json(nullptr)},
               {"positions", Json::array()}};
  if (!std::isfinite(result.loss)) {
    json["reason"] = "the model gave a token no finite probability";
  }
  for (const PplBucket& bucket : result.buckets) {
    json["positions"].push_back(
        {{"begin", bucket.begin}, {"end", bucket.end}, {"tokens", bucket.tokens}, {"loss", json_number(bucket.loss)}});
  }
  return json;
}

PplResult ppl_from_json(const Json& json) {
  const auto number = [](const Json& value) { return value.is_null() ? std::nan("") : value.get<double>(); };
  PplResult result;
  result.name = json.at("name");
  result.tokens = json.at("tokens");
  result.loss = number(json.at("loss"));
  if (!json.at("log_scale_a").is_null()) {
    result.log_scale_a = json.at("log_scale_a").get<double>();
  }
  for (const Json& entry : json.at("positions")) {
    result.buckets.push_back({entry.at("begin"), entry.at("end"), entry.at("tokens"), number(entry.at("loss"))});
  }
  return result;
}

std::string ppl_table(const std::vector<PplResult>& results) {
  std::string text = "| |", rule = "\n|---|", loss = "\n| **loss** |", perplexity = "\n| perplexity |";
  std::map<std::int64_t, std::string> rows;  // label cell of each bucket of any result
  for (const PplResult& result : results) {
    text.append(" ").append(result.name).append(" |");
    rule.append("---|");
    loss.append(" ").append(number_text(result.loss, 4)).append(" |");
    perplexity.append(" ").append(number_text(std::exp(result.loss), 2)).append(" |");
    for (const PplBucket& bucket : result.buckets) {
      rows.try_emplace(bucket.begin, "\n| position " + bucket_label(bucket) + " |");
    }
  }
  for (auto& [begin, row] : rows) {
    for (const PplResult& result : results) {
      const auto bucket = std::find_if(result.buckets.begin(), result.buckets.end(),
                                       [begin = begin](const PplBucket& b) { return b.begin == begin; });
      row.append(" ").append(bucket == result.buckets.end() ? "-" : number_text(bucket->loss, 4)).append(" |");
    }
    perplexity += row;
  }
  return text + rule + loss + perplexity + "\n";
}

}  // namespace hydra::eval
