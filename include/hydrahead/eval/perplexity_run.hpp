#pragma once
// `eval ppl`: perplexity with its files. A directory that holds the result of the same settings is not computed again;
// one with other settings is refused.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hydrahead/eval/perplexity.hpp"

namespace hydra::eval {

struct PplRun {
  std::filesystem::path out;
  std::string name;
  Json identity = Json::object();  // what tells the model and its precision from others
  std::int64_t context = 0;
  PplOptions options = {};
  std::vector<double> log_scale_a = {};  // a sweep besides the model's own constant
  Json run_info = Json::object();        // versions and device: written to run.json
};

// Writes ppl.json, ppl.md, ppl.svg and run.json; returns the Markdown table. The model is loaded only if it is needed.
std::string run_perplexity(const PplRun& run, const std::vector<data::Row>& rows,
                           const std::function<model::Model()>& load, dist::Communicator& communicator);

// Ids and document bounds of rows: tells texts apart.
std::string rows_sha256(const std::vector<data::Row>& rows);

}  // namespace hydra::eval
