#include "hydrahead/metrics/prometheus_file.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "hydrahead/base/files.hpp"

namespace hydra::metrics {
namespace {

std::string metric_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    const bool digit = c >= '0' && c <= '9';
    name.push_back(letter || (digit && !name.empty()) ? c : '_');
  }
  return name;
}

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      escaped.push_back('\\');
    }
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

std::string number(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace

std::string prometheus_text(std::span<const Gauge> gauges,
                            const std::vector<std::pair<std::string, std::string>>& labels) {
  std::string label_text;
  for (const auto& [key, value] : labels) {
    label_text.append(label_text.empty() ? "{" : ",").append(metric_name(key));
    label_text.append("=\"").append(label_value(value)).append("\"");
  }
  label_text.append(label_text.empty() ? "" : "}");
  std::string text;
  for (const Gauge& gauge : gauges) {
    const std::string name = metric_name(gauge.name);
    text.append("# TYPE ").append(name).append(" gauge\n").append(name).append(label_text);
    text.append(" ").append(number(gauge.value)).append("\n");
  }
  return text;
}

void write_prometheus(const std::filesystem::path& path, std::span<const Gauge> gauges,
                      const std::vector<std::pair<std::string, std::string>>& labels) {
  write_file_atomic(path, prometheus_text(gauges, labels));
}

}  // namespace hydra::metrics
