#include "hydrahead/eval/niah_run.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "format.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/metrics/progress.hpp"
#include "niah_html.hpp"

namespace hydra::eval {
namespace {

constexpr std::int64_t most_prompts = 64;       // of one generate call
constexpr std::int64_t guarded_length = 32768;  // above it, a model that finds nothing is stopped early
constexpr std::int64_t guard_samples = 4;
constexpr std::size_t shown_prompt = 4000;  // bytes of a prompt in the reports

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Lengths in ascending order, each with its number of samples.
NiahConfig in_order(NiahConfig config) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < config.lengths.size(); ++i) {
    pairs.emplace_back(config.lengths[i], config.samples_at(i));
  }
  std::sort(pairs.begin(), pairs.end());
  config.lengths.clear();
  config.samples.clear();
  for (const auto& [length, samples] : pairs) {
    HYDRA_REQUIRE(config.lengths.empty() || config.lengths.back() != length, "lengths: found ", length,
                  " twice, expected distinct lengths");
    config.lengths.push_back(length);
    config.samples.push_back(samples);
  }
  HYDRA_REQUIRE(!config.lengths.empty() && !config.tasks.empty(), "niah: found no ",
                config.lengths.empty() ? "lengths" : "tasks", ", expected at least one");
  return config;
}

// The text of the wrapper's file, or nothing.
std::string wrapper_text(const NiahConfig& config) {
  if (config.chat_wrapper.empty()) {
    return "";
  }
  const std::string text = read_file(config.chat_wrapper), slot = "{task}";
  const std::size_t at = text.find(slot);
  HYDRA_REQUIRE(at != std::string::npos && text.find(slot, at + 1) == std::string::npos, "chat_wrapper ",
                config.chat_wrapper.string(), ": found {task} ", at == std::string::npos ? "nowhere" : "more than once",
                ", expected it once");
  return text;
}

data::NiahOptions sample_options(const NiahConfig& config) {
  return {.prompt = config.prompt,
          .chat_wrapper = wrapper_text(config),
          .answer_prefix = config.answer_prefix,
          .max_new = config.max_new,
          .seed = static_cast<std::uint64_t>(config.seed),
          .depths = config.depths};
}

std::string prompt_name(data::PromptForm form) {
  switch (form) {
    case data::PromptForm::base: return "base";
    case data::PromptForm::chat: return "chat";
    case data::PromptForm::chat_thinking: return "chat-thinking";
  }
  HYDRA_CHECK(false, "unknown prompt form");
}

// Everything that changes a sample or its answer; tasks, lengths and counts may grow over the same records.
Json settings_of(const NiahConfig& config, const data::Corpora& corpora, const text::Tokenizer& tokenizer,
                 const NiahSubject& subject) {
  Json settings = subject.identity;
  settings["tokenizer_sha256"] = tokenizer.sha256();
  settings["prompt"] = prompt_name(config.prompt);
  if (!config.chat_wrapper.empty()) {
    settings["chat_wrapper"] = wrapper_text(config);
  }
  settings["answer_prefix"] = config.answer_prefix;
  settings["max_new"] = config.max_new > 0 ? Json(config.max_new) : config.max_new == 0 ? Json("auto") : Json("ruler");
  settings["seed"] = config.seed;
  settings["depths"] = config.depths.empty() ? Json("ruler") : Json(config.depths);
  settings["essay"] = corpora.essay.empty() ? "none" : corpora.essay_name;
  settings["essay_sha256"] = corpora.essay_sha256;
  settings["words"] = corpora.words_name;
  settings["words_sha256"] = corpora.words_sha256;
  settings["decoding"] = "greedy";
  settings["stop_ids"] = subject.stop_ids;
  settings["compat"] = "none";
  return settings;
}

// The beginning and the end of a long prompt, cut between characters.
std::string shortened(const std::string& text) {
  if (text.size() <= shown_prompt) {
    return text;
  }
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  std::size_t head = shown_prompt / 2, tail = text.size() - shown_prompt / 2;
  while (continues(head)) {
    --head;
  }
  while (continues(tail)) {
    ++tail;
  }
  return detail::concat(text.substr(0, head), "\n[... ", tail - head, " bytes ...]\n", text.substr(tail));
}

}  // namespace

NiahRun::NiahRun(const NiahConfig& config, const data::Corpora& corpora, const text::Tokenizer& tokenizer,
                 NiahSubject subject, NiahRunOptions options, dist::Communicator& communicator)
    : config_(in_order(config)),
      tokenizer_(tokenizer),
      subject_(std::move(subject)),
      options_(std::move(options)),
      communicator_(communicator),
      builder_(corpora, tokenizer, sample_options(config_)),
      settings_(settings_of(config_, corpora, tokenizer, subject_)) {
  check_fit();
  store_.emplace(options_.out, settings_, communicator_);
  guard_passed_ = options_.force || config_.lengths.back() <= guarded_length;
  if (communicator_.rank() == 0 && subject_.trained_context > 0 && config_.lengths.back() > subject_.trained_context) {
    log_warning("lengths up to ", config_.lengths.back(), " lie beyond the model's trained context of ",
                subject_.trained_context, " tokens: this measures extrapolation");
  }
}

void NiahRun::check_fit() {
  for (const data::NiahTask task : config_.tasks) {
    for (std::size_t column = 0; column < config_.lengths.size(); ++column) {
      const auto reason = builder_.unfit_reason(task, config_.lengths[column], config_.samples[column]);
      if (reason) {
        HYDRA_REQUIRE(options_.skip_unfit, *reason,
                      "; --max-new sets another budget, --skip-unfit leaves such cells empty");
        missing_[{task, config_.lengths[column]}] = *reason;
      }
    }
  }
}

std::vector<NiahRun::Batch> NiahRun::batches() const {
  std::vector<Batch> result;
  for (std::size_t column = 0; column < config_.lengths.size(); ++column) {
    const std::int64_t length = config_.lengths[column];
    const std::int64_t size = std::clamp(options_.batch_tokens / length, std::int64_t{1}, most_prompts);
    for (const data::NiahTask task : config_.tasks) {
      if (missing_.contains({task, length})) {
        continue;
      }
      // Batches lie on a fixed grid of indices, so that a resumed run forms the same ones.
      for (std::int64_t first = 0; first < config_.samples[column]; first += size) {
        Batch batch{.task = task, .length = length, .indices = {}};
        for (std::int64_t i = first; i < std::min(first + size, config_.samples[column]); ++i) {
          if (!store_->done().contains(detail::concat(data::task_name(task), "/", length, "/", i))) {
            batch.indices.push_back(i);
          }
        }
        if (!batch.indices.empty()) {
          result.push_back(std::move(batch));
        }
      }
    }
  }
  return result;
}

std::int64_t NiahRun::remaining() const {
  std::int64_t samples = 0;
  for (const Batch& batch : batches()) {
    samples += static_cast<std::int64_t>(batch.indices.size());
  }
  return samples;
}

SampleRecord NiahRun::score(const data::NiahSample& sample, const std::vector<std::int32_t>& answer,
                            const std::string& error, double ms) const {
  const auto is_stop = [&](std::int32_t id) {
    return std::find(subject_.stop_ids.begin(), subject_.stop_ids.end(), id) != subject_.stop_ids.end();
  };
  const bool stopped = !answer.empty() && is_stop(answer.back());
  SampleRecord record;
  record.id = sample.id;
  record.task = sample.task;
  record.length = sample.length;
  record.index = sample.index;
  record.seed = config_.seed;
  record.input_sha256 = sha256_hex(sample.prompt_text);
  record.input = options_.save_inputs ? sample.prompt_text : "";
  record.answer_prefix = sample.answer_prefix;
  record.references = sample.references;
  record.pred_raw = tokenizer_.decode(std::span(answer).first(answer.size() - (stopped ? 1 : 0)), true);
  record.pred = postprocess(record.pred_raw);
  record.prompt_tokens = static_cast<std::int64_t>(sample.ids.size());
  record.new_tokens = static_cast<std::int64_t>(answer.size());
  record.budget = sample.budget;
  record.truncated = error.empty() && !stopped && record.new_tokens >= sample.budget;
  record.depths = sample.depths;
  record.essay_repeats = sample.essay_repeats;
  record.recounted = !sample.counts_added_up;
  record.score = score_sample(record.pred, record.references);
  record.ms = rounded(ms, 3);
  record.error = error;
  return record;
}

std::vector<SampleRecord> NiahRun::run_batch(const Batch& batch, const Generate& generate) const {
  std::vector<data::NiahSample> samples;
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int64_t> budgets;
  for (const std::int64_t index : batch.indices) {
    samples.push_back(builder_.sample(batch.task, batch.length, index));
    prompts.push_back(samples.back().ids);
    budgets.push_back(samples.back().budget);
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::string> errors(samples.size());
  try {
    answers = generate(prompts, budgets);
  } catch (const UserError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {  // one at a time, so that the samples without an answer are known
    for (std::size_t i = 0; i < samples.size(); ++i) {
      try {
        answers.push_back(generate({prompts[i]}, {budgets[i]}).at(0));
      } catch (const Interrupted&) {
        throw;
      } catch (const Error& error) {
        log_error(samples[i].id, ": no answer: ", error.what());
        answers.emplace_back();
        errors[i] = error.what();
      }
    }
  }
  HYDRA_CHECK(answers.size() == samples.size(), "generate gave ", answers.size(), " answers for ", samples.size(),
              " prompts");
  const double ms = 1000 * seconds_since(start) / static_cast<double>(samples.size());
  std::vector<SampleRecord> records;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    records.push_back(score(samples[i], answers[i], errors[i], ms));
  }
  return records;
}

// Zeros at the shortest length mean that something is wrong with the model or its settings: hours above 32K would be
// lost.
void NiahRun::check_guard(const SampleRecord& record) {
  if (guard_passed_) {
    return;
  }
  guard_passed_ = record.length > config_.lengths.front() || record.score.score > 0;
  guard_seen_ += 1;
  if (!guard_passed_ && guard_seen_ >= std::min(guard_samples, config_.samples.front())) {
    throw Error(detail::concat(subject_.name, ": the first ", guard_seen_, " samples of length ",
                               config_.lengths.front(), " all scored 0; stopped before lengths up to ",
                               config_.lengths.back(), ". Look at samples.jsonl; --force goes on"));
  }
}

NiahSummary NiahRun::run(const Generate& generate) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Batch> own;
  std::int64_t tokens = 0, done = 0;
  const std::vector<Batch> all = batches();
  for (std::size_t b = 0; b < all.size(); ++b) {
    if (b % static_cast<std::size_t>(communicator_.size()) == static_cast<std::size_t>(communicator_.rank())) {
      own.push_back(all[b]);
      tokens += all[b].length * static_cast<std::int64_t>(all[b].indices.size());
    }
  }
  for (const auto& [id, record] : store_->done()) {
    check_guard(record);
  }
  std::optional<metrics::Progress> progress;
  if (communicator_.rank() == 0 && !own.empty()) {
    progress.emplace(metrics::ProgressOptions{.title = "NIAH " + subject_.name, .unit = "tokens", .total = tokens});
  }
  for (const Batch& batch : own) {
    if (stop_requested()) {
      throw Interrupted(detail::concat("evaluation stopped by a signal; what is done is in ", options_.out.string(),
                                       ": run it again to go on"));
    }
    const std::vector<SampleRecord> records = run_batch(batch, generate);
    double score = 0;
    for (const SampleRecord& record : records) {
      store_->append(record);
      score += record.score.score;
    }
    done += batch.length * static_cast<std::int64_t>(batch.indices.size());
    if (progress) {
      progress->update(
          done, detail::concat(data::task_name(batch.task), " ", batch.length, ": ", score, " of ", records.size()));
    }
    std::for_each(records.begin(), records.end(), [this](const SampleRecord& record) { check_guard(record); });
  }
  if (progress) {
    progress->finish();
  }
  return report(store_->finish(), seconds_since(start));
}

NiahSummary NiahRun::report(const std::map<std::string, SampleRecord>& records, double seconds) const {
  NiahRequest request{.name = subject_.name,
                      .settings = settings_,
                      .tasks = config_.tasks,
                      .lengths = config_.lengths,
                      .samples = config_.samples,
                      .depths = config_.depths,
                      .threshold = options_.threshold,
                      .missing = missing_};
  NiahSummary summary = summarize_niah(request, records);
  for (const data::NiahTask task : config_.tasks) {
    const auto length = std::find_if(config_.lengths.begin(), config_.lengths.end(), [&](std::int64_t l) {
      return !missing_.contains({task, l});
    });
    if (length != config_.lengths.end()) {
      const data::NiahSample sample = builder_.sample(task, *length, 0);
      summary.prompts.emplace_back(sample.id, shortened(sample.prompt_text));
    }
  }
  if (communicator_.rank() == 0) {
    const fs::path& out = options_.out;
    write_file_atomic(out / "summary.json", to_json(summary).dump(1) + "\n");
    write_file_atomic(out / "summary.csv", niah_csv(summary));
    write_file_atomic(out / "summary.md", niah_markdown(summary));
    write_file_atomic(out / "tasks.svg", niah_tasks_svg(summary));
    for (std::size_t t = 0; t < summary.tasks.size(); ++t) {
      const std::string name = detail::concat("depth-", data::task_name(summary.tasks[t]), ".svg");
      write_file_atomic(out / name, niah_depth_svg(summary, t));
    }
    write_file_atomic(out / "report.html", niah_html(summary));
    Json run = {{"name", subject_.name}, {"settings", settings_}, {"ranks", communicator_.size()}};
    run["samples"] = config_.samples;
    run["lengths"] = config_.lengths;
    run["batch_tokens"] = options_.batch_tokens;
    run.update(options_.run_info);
    run["finished_unix_seconds"] =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    run["seconds_of_last_start"] = rounded(seconds, 3);
    write_file_atomic(out / "run.json", run.dump(1) + "\n");
  }
  communicator_.barrier();
  return summary;
}

}  // namespace hydra::eval
