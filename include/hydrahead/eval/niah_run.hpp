#pragma once
// One NIAH evaluation from samples to reports (evaluation.md sections 1, 6 and 10). The model sits behind a callback,
// so that any decoder, or none, can be evaluated.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/data/niah.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/eval/eval_config.hpp"
#include "hydrahead/eval/niah_summary.hpp"
#include "hydrahead/eval/record_store.hpp"
#include "hydrahead/text/tokenizer.hpp"

namespace hydra::eval {

// Greedy decoding: the new ids of each prompt, a stop id included, at most budgets[i] of them. Throws Interrupted when
// a signal asked to stop, and Error where there is no answer.
using Generate = std::function<std::vector<std::vector<std::int32_t>>(
    const std::vector<std::vector<std::int32_t>>& prompts, const std::vector<std::int64_t>& budgets)>;

// What is evaluated, as far as the samples and reports need to know it.
struct NiahSubject {
  std::string name;                // for reports: "teacher", "checkpoints/Qwen3-1.7B"
  Json identity = Json::object();  // everything that changes answers: model_sha256, precision, ...
  std::vector<std::int64_t> stop_ids;
  std::int64_t trained_context = 0;  // longer lengths are allowed, with a warning; 0: unknown
};

struct NiahRunOptions {
  std::filesystem::path out;
  bool skip_unfit = false;  // a cell that cannot fit is null with its reason, instead of a refusal
  bool force = false;       // go on above 32K though the first samples scored 0
  bool save_inputs = false;
  double threshold = 85.6;
  std::int64_t batch_tokens = 16384;  // prompts and budgets of one generate call; a longer sample goes alone
  Json run_info = Json::object();     // versions, device: written to run.json
};

class NiahRun {
 public:
  // Checks everything that can be checked without a model: fit, settings of an existing directory. UserError otherwise.
  // corpora, tokenizer and communicator must outlive it. Every rank makes its own.
  NiahRun(const NiahConfig& config, const data::Corpora& corpora, const text::Tokenizer& tokenizer, NiahSubject subject,
          NiahRunOptions options, dist::Communicator& communicator);

  // Samples that are not yet on disk, over all ranks.
  std::int64_t remaining() const;

  // Computes what is missing, shortest length first, and writes all files. Throws Interrupted when stopped by a signal:
  // every finished sample is on disk then. The summary is the same on every rank.
  NiahSummary run(const Generate& generate);

 private:
  struct Batch {
    data::NiahTask task;
    std::int64_t length = 0;
    std::vector<std::int64_t> indices;  // not yet done
  };
  void check_fit();
  void check_guard(const SampleRecord& record);
  std::vector<Batch> batches() const;
  std::vector<SampleRecord> run_batch(const Batch& batch, const Generate& generate) const;
  SampleRecord score(const data::NiahSample& sample, const std::vector<std::int32_t>& answer, const std::string& error,
                     double ms) const;
  NiahSummary report(const std::map<std::string, SampleRecord>& records, double seconds) const;

  NiahConfig config_;  // lengths ascending, samples one a length
  const text::Tokenizer& tokenizer_;
  NiahSubject subject_;
  NiahRunOptions options_;
  dist::Communicator& communicator_;
  data::NiahBuilder builder_;
  Json settings_;
  std::map<std::pair<data::NiahTask, std::int64_t>, std::string> missing_;
  std::optional<RecordStore> store_;
  std::int64_t guard_seen_ = 0;
  bool guard_passed_ = false;
};

}  // namespace hydra::eval
