#pragma once
// The records of an evaluation, one JSON object a sample, on disk as soon as it is scored: samples.jsonl, and with
// several ranks samples.rank<r>.jsonl until they are merged. Line 1 is a header with all settings that change samples
// or answers; a directory with other settings is refused (evaluation.md section 10).

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/data/niah.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/eval/score.hpp"

namespace hydra::eval {

struct SampleRecord {
  std::string id;  // "niah_single_1/4096/17"
  data::NiahTask task = data::NiahTask::single_1;
  std::int64_t length = 0, index = 0, seed = 0;
  std::string input_sha256, input;  // the text that the model read; `input` only if it is to be saved
  std::string answer_prefix;
  std::vector<std::string> references;
  std::string pred_raw, pred;
  std::int64_t prompt_tokens = 0, new_tokens = 0, budget = 0;
  bool truncated = false;          // the budget was used up without a stop token
  std::vector<double> depths;      // per reference: its needle's token position / prompt tokens
  std::int64_t essay_repeats = 0;  // times that the essay began again
  bool recounted = false;          // the exact fit needed re-tokenizing
  SampleScore score;
  double ms = 0.0;
  std::string error;  // why there is no answer (logits that are not finite); the score is 0 then
};

Json to_json(const SampleRecord& record);
Expected<SampleRecord> record_from_json(const Json& json);

// UserError naming every key in which settings differ from what `file` was made with.
void require_same_settings(const Json& found, const Json& expected, const std::filesystem::path& file);

class RecordStore {
 public:
  // Reads what is there, drops a torn last line, merges the files of an earlier run's ranks. UserError: other settings
  // (each differing key is named), a line that is no record, a used directory without records, one that another process
  // writes.
  RecordStore(std::filesystem::path dir, Json settings, dist::Communicator& communicator);
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;
  // Without a single record nothing is left behind: the run was refused before its first answer.
  ~RecordStore();

  // Samples that were there before: none of them is computed again.
  const std::map<std::string, SampleRecord>& done() const { return done_; }
  void append(const SampleRecord& record);
  // After the last append of every rank: all records; rank 0 leaves one samples.jsonl.
  std::map<std::string, SampleRecord> finish();

 private:
  std::filesystem::path dir_;
  Json settings_;
  dist::Communicator& communicator_;
  bool new_dir_;
  std::unique_ptr<DirectoryClaim> claim_;
  std::map<std::string, SampleRecord> done_;
  bool empty_;
  std::filesystem::path own_path_;
  std::ofstream own_file_;
};

}  // namespace hydra::eval
