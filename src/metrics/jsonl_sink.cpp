#include "hydrahead/metrics/jsonl_sink.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "hydrahead/base/files.hpp"

namespace hydra::metrics {
namespace {

void replace_non_finite(Json& value, const std::string& name, std::vector<std::string>& found) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    value = nullptr;
    found.push_back(name);
  } else if (value.is_structured()) {
    for (auto& [key, member] : value.items()) {
      replace_non_finite(member, name.empty() ? key : name + "." + key, found);
    }
  }
}

// The complete lines of `text` up to the first one that does not belong to steps <= last_step.
std::string kept_lines(std::string_view text, std::int64_t last_step) {
  std::string kept;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    const auto object = parse_json(text.substr(begin, end - begin));
    if (!object || !object->is_object() || object->value("step", std::int64_t{0}) > last_step) {
      break;
    }
    kept.append(text.substr(begin, end + 1 - begin));
  }
  return kept;
}

}  // namespace

Json strict_json(Json object) {
  std::vector<std::string> found;
  replace_non_finite(object, "", found);
  if (!found.empty()) {
    object["not_finite"] = found;
  }
  return object;
}

JsonlSink::JsonlSink(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  std::string kept;
  if (last_step >= 0 && std::filesystem::exists(path)) {
    kept = kept_lines(read_file(path), last_step);
  }
  write_file_atomic(path, kept);
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) {
    throw Error(path.string() + ": cannot be opened for writing: " + std::strerror(errno));
  }
}

void JsonlSink::write(const Json& object) {
  const std::string line = strict_json(object).dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    throw Error(path_.string() + ": writing failed: " + std::strerror(errno));
  }
}

}  // namespace hydra::metrics
