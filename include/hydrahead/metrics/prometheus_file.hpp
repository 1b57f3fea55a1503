#pragma once
// The latest values in Prometheus' text format, for node_exporter's textfile collector: replaced by one rename, so that
// a reader never sees half a file.

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydra::metrics {

struct Gauge {
  std::string name;  // [a-zA-Z_:][a-zA-Z0-9_:]*; other characters become '_'
  double value = 0.0;
};

// Every gauge carries `labels`. Values that are not finite are written as NaN, +Inf, -Inf, which the format allows.
std::string prometheus_text(std::span<const Gauge> gauges,
                            const std::vector<std::pair<std::string, std::string>>& labels);

void write_prometheus(const std::filesystem::path& path, std::span<const Gauge> gauges,
                      const std::vector<std::pair<std::string, std::string>>& labels);

}  // namespace hydra::metrics
