#include "hydrahead/train/conversion.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/signals.hpp"
#include "hydrahead/data/rows.hpp"
#include "hydrahead/io/safetensors.hpp"
#include "hydrahead/model/device.hpp"

namespace hydra::train {
namespace {

namespace fs = std::filesystem;

model::CalibrationTokens tokens_of_sources(const RunConfig& config, const model::Qwen3Config& teacher) {
  HYDRA_REQUIRE(!config.data.sources.empty(),
                "convert: calibration needs text: found no data.sources, expected some (with --config) or "
                "--calibration-ids FILE");
  const std::int64_t context = std::min(config.calibration.context, teacher.max_position);
  const text::Tokenizer tokenizer = text::Tokenizer::load(config.teacher);
  const auto rows = data::make_rows(config.data, context, data::Packing::reset, tokenizer, teacher.vocab_size,
                                    static_cast<std::uint64_t>(config.seed));
  model::CalibrationTokens tokens;
  std::int64_t count = 0;
  for (std::uint64_t index = 0; count < config.calibration.tokens; ++index) {
    if (stop_requested()) {
      throw Interrupted("calibration stopped by a signal");
    }
    const data::Row row = rows->row(index);
    auto begin = row.ids.begin();
    for (const std::int64_t length : row.lengths) {
      tokens.sequences.emplace_back(begin, begin + length);
      begin += length;
    }
    count += static_cast<std::int64_t>(row.ids.size());
  }
  return tokens;
}

std::int64_t count_tokens(const model::CalibrationTokens& tokens) {
  std::int64_t count = 0;
  for (const auto& sequence : tokens.sequences) {
    count += static_cast<std::int64_t>(sequence.size());
  }
  return count;
}

model::CalibrationTokens read_ids_of_safetensors(const fs::path& file) {
  const auto tensors = io::SafetensorsFile::open(file);
  HYDRA_REQUIRE(tensors.contains("input_ids"), file.string(),
                ": found no tensor input_ids, expected one of shape [B, T]");
  const at::Tensor ids = tensors.load("input_ids");
  HYDRA_REQUIRE(ids.dim() == 2 && (ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt), file.string(),
                ": input_ids: found shape of ", ids.dim(), " dimensions and type ", at::toString(ids.scalar_type()),
                ", expected integers [B, T]");
  const at::Tensor values = ids.to(at::kInt).contiguous();
  model::CalibrationTokens tokens;
  for (std::int64_t b = 0; b < values.size(0); ++b) {
    const auto* row = values.const_data_ptr<std::int32_t>() + b * values.size(1);
    tokens.sequences.emplace_back(row, row + values.size(1));
  }
  return tokens;
}

std::string conversion_record(const model::Conversion& conversion, const model::HeadPlan& plan, std::int64_t tokens,
                              const std::string& source) {
  Json record;
  record["format"] = 1;
  record["teacher_sha256"] = plan.teacher_sha256;
  record["calibration"] = {{"tokens", tokens}, {"source", source}};
  Json parameters = Json::array();
  for (const model::NewParameter& parameter : conversion.new_parameters) {
    parameters.push_back({{"name", parameter.name}, {"initial_value", parameter.initial_value}});
  }
  record["new_parameters"] = parameters;
  return record.dump(1) + "\n";
}

void log_new_parameters(const model::Conversion& conversion) {
  // One line a kind, not a layer: the names of layer 0 stand for all; conversion.json has every one.
  std::map<std::string, std::pair<std::string, int>> kinds;
  for (const model::NewParameter& parameter : conversion.new_parameters) {
    const auto cut = parameter.name.find(".self_attn.");
    auto& [value, count] = kinds[parameter.name.substr(cut + 11)];
    value = parameter.initial_value;
    ++count;
  }
  for (const auto& [kind, entry] : kinds) {
    log_info("new parameter self_attn.", kind, " in ", entry.second, " layers: ", entry.first);
  }
}

}  // namespace

model::HeadPlan choose_plan(const model::HeadsConfig& heads, const io::HfModelDir& teacher,
                            const model::Qwen3Config& config, std::int64_t seed) {
  const std::string sha256 = teacher.sha256();
  std::optional<model::HeadScores> scores;
  if (model::needs_scores(heads) && fs::exists(heads.scores)) {
    scores = model::read_scores(heads.scores, config, sha256);
  }
  model::HeadPlan plan = heads.plan.empty() ? model::plan_by_rule(heads, config, seed, scores ? &*scores : nullptr)
                                            : model::read_plan(heads.plan, config, sha256);
  plan.teacher_sha256 = sha256;
  return plan;
}

model::CalibrationTokens read_calibration_ids(const fs::path& file) {
  if (file.extension() == ".safetensors") {
    return read_ids_of_safetensors(file);
  }
  model::CalibrationTokens tokens;
  std::istringstream lines(read_file(file));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const std::string where = detail::concat(file.string(), ":", number);
    const Json ids = parse_json(line).value_or_fail(where);
    HYDRA_REQUIRE(ids.is_array(), where, ": found ", ids.type_name(), ", expected an array of token ids");
    std::vector<std::int32_t> sequence;
    for (const Json& id : ids) {
      HYDRA_REQUIRE(id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() <= INT32_MAX, where,
                    ": found ", id.dump(), ", expected a token id");
      sequence.push_back(id.get<std::int32_t>());
    }
    if (!sequence.empty()) {
      tokens.sequences.push_back(std::move(sequence));
    }
  }
  return tokens;
}

void run_conversion(const RunConfig& config, const fs::path& out, const fs::path& calibration_ids) {
  HYDRA_REQUIRE(!fs::exists(out) || fs::is_empty(out), out.string(),
                ": already holds something; expected a new or empty directory");
  HYDRA_REQUIRE(!config.teacher.empty(), "teacher: found nothing, expected a Qwen3 directory");
  const auto dir = io::HfModelDir::open(config.teacher);
  const model::ModelConfig teacher_config = model::read_model_config(dir);
  HYDRA_REQUIRE(!teacher_config.plan, config.teacher.string(),
                ": found a hybrid checkpoint (model_type hydrahead), expected a teacher; it was converted already");
  const model::HeadPlan plan = choose_plan(config.heads, dir, teacher_config.base, config.seed);

  model::CalibrationTokens calibration;
  std::string source = "none needed";
  if (model::needs_calibration(config.hybrid)) {
    source = calibration_ids.empty() ? "data.sources" : calibration_ids.filename().string();
    calibration = calibration_ids.empty() ? tokens_of_sources(config, teacher_config.base)
                                          : read_calibration_ids(calibration_ids);
    log_info("calibrating on ", count_tokens(calibration), " tokens in ", calibration.sequences.size(), " documents");
  }
  // fp32 statistics whatever the run's precision: the initial values should not depend on the device.
  model::LoadOptions load;
  load.device = config.device == DeviceChoice::cpu    ? at::Device(at::kCPU)
                : config.device == DeviceChoice::cuda ? model::choose_device("cuda")
                                                      : model::choose_device("auto");
  const model::Model teacher = model::load_model(dir, load);
  model::Conversion conversion = model::convert(teacher, plan, config.hybrid, calibration, config.seed);
  log_new_parameters(conversion);

  model::SaveOptions save;
  save.dtype = teacher_config.base.dtype;
  save.tokenizer_source = config.teacher;
  save.extra_files["conversion.json"] = conversion_record(conversion, plan, count_tokens(calibration), source);
  save.extra_files["heads.yaml"] = model::plan_text(plan);
  model::save_model(conversion.hybrid, out, save);
}

}  // namespace hydra::train
