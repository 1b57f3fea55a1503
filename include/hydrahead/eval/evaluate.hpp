#pragma once
// Evaluates one state of a model (the teacher, the converted hybrid, the student after a stage) with the settings of
// the config section `eval`, and keeps the results in a directory of its own. `train` and `eval` call it.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/eval/niah_run.hpp"
#include "hydrahead/eval/perplexity.hpp"
#include "hydrahead/model/head_plan.hpp"

namespace hydra::eval {

struct StateResult {
  std::string name;  // "teacher", "converted", "align", ...
  std::int64_t parameters = 0;
  model::CacheBytes cache;  // decode state: bytes a token, and constant
  std::optional<NiahSummary> niah;
  std::optional<PplResult> ppl;
};

// What the states of a run have in common. The pointers may be null where `config` does not ask for that part.
struct EvalInputs {
  const EvalConfig& config;
  const text::Tokenizer& tokenizer;
  const data::Corpora* corpora = nullptr;                // niah
  const std::vector<data::Row>* ppl_rows = nullptr;      // ppl: rows of config.ppl->context tokens
  model::StateType state_type = model::StateType::fp32;  // cache.state_dtype
};

// Writes <dir>/state.json, <dir>/niah/... and <dir>/ppl.json, ppl.md. Whatever is there for the same settings and
// weights is used, so an interrupted evaluation goes on; other settings are refused. weights: an object that tells this
// state's weights from others (a hash, or a step of a run). Cells that do not fit a length are null with their reason.
// Throws Interrupted.
StateResult evaluate_state(const std::string& name, const model::Model& model, const Json& weights,
                           const EvalInputs& inputs, const std::filesystem::path& dir,
                           dist::Communicator& communicator);

// What evaluate_state left in `dir`; nothing if it did not finish there.
std::optional<StateResult> read_state(const std::filesystem::path& dir);

// Greedy decoding by a model, for NiahRun.
Generate model_generator(const model::Model& model, model::StateType state_type);
// Tokens of one generate call that the device takes in a batch: on a CPU as many as fit into 1 GiB of KV cache, from
// 16,384 to 131,072.
std::int64_t default_batch_tokens(const at::Device& device, const model::CacheBytes& cache);

// "fp32", "bf16", "fp16".
std::string precision_name(at::ScalarType type);

// Bytes of the decode state (method.md section 9) with activations of the compute type.
model::CacheBytes cache_use(const model::ModelConfig& config, at::ScalarType compute_type, model::StateType state_type);

}  // namespace hydra::eval
