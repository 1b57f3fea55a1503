// analysis.json and analysis.html: every figure as a number, and a page of matrices without any outside resource.

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/metrics/grid_svg.hpp"
#include "hydrahead/metrics/heatmap_svg.hpp"
#include "hydrahead/metrics/html.hpp"
#include "hydrahead/select/analysis.hpp"
#include "hydrahead/select/similarity.hpp"

namespace hydra::select {
namespace {

using metrics::HtmlCell;

std::string number(double value, const char* format = "%.3f") {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return std::isfinite(value) ? text.data() : "-";
}

std::span<const double> values_of(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<double>(), static_cast<std::size_t>(contiguous.numel())};
}

std::vector<double> ginis(const at::Tensor& scores) {
  std::vector<double> result;
  for (std::int64_t layer = 0; layer < scores.size(0); ++layer) {
    result.push_back(gini(values_of(scores[layer].contiguous())));
  }
  return result;
}

// Rows of numbers with five decimals; null where a value is not finite.
Json matrix_json(const at::Tensor& matrix) {
  Json rows = Json::array();
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    const at::Tensor line = matrix[row].contiguous();
    Json numbers = Json::array();
    for (const double value : values_of(line)) {
      numbers.push_back(json_number(std::round(value * 1e5) / 1e5));
    }
    rows.push_back(std::move(numbers));
  }
  return rows;
}

metrics::Grid grid_of(const std::string& title, const at::Tensor& matrix, const std::string& x_name,
                      const std::string& y_name) {
  const at::Tensor contiguous = matrix.contiguous();
  const std::span<const double> values = values_of(contiguous);
  return {.title = title,
          .x_name = x_name,
          .y_name = y_name,
          .rows = static_cast<int>(matrix.size(0)),
          .columns = static_cast<int>(matrix.size(1)),
          .values = {values.begin(), values.end()}};
}

// A value of every head, from 0 to the largest one.
std::string heads_svg(const std::string& title, const at::Tensor& values) {
  metrics::Grid grid = grid_of(title, values, "head", "layer");
  grid.high = 0;
  for (const double value : grid.values) {
    grid.high = std::isfinite(value) ? std::max(grid.high, value) : grid.high;
  }
  return metrics::grid_svg(grid);
}

std::string similarity_svg(const std::string& title, const at::Tensor& matrix, bool cosine, const std::string& name,
                           std::int64_t heads) {
  metrics::Grid grid = grid_of(title, matrix, name, name);
  grid.low = cosine ? -1 : 0;
  grid.diverging = cosine;
  if (heads > 0) {
    grid.lines_every = static_cast<int>(heads);
    const auto label = [heads](int index) { return detail::concat("layer ", index / heads, " head ", index % heads); };
    grid.tooltip = [values = grid.values, columns = grid.columns, label](int row, int column) {
      const double value = values[static_cast<std::size_t>(row * columns + column)];
      return label(row) + ", " + label(column) + ": " + number(value);
    };
  }
  return metrics::grid_svg(grid);
}

// Mean of the entries off the diagonal of a square block.
double off_diagonal_mean(const at::Tensor& block) {
  const auto n = static_cast<double>(block.size(0));
  return n > 1 ? (block.sum() - block.diagonal().sum()).item<double>() / (n * (n - 1))
               : std::numeric_limits<double>::quiet_NaN();
}

std::string layers_table(const HeadAnalysis& analysis, const std::optional<at::Tensor>& scores) {
  const std::int64_t layers = analysis.rms.size(0), heads = analysis.rms.size(1);
  const std::vector<double> gini_of = scores ? ginis(*scores) : std::vector<double>{};
  std::vector<std::vector<HtmlCell>> rows;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto block = [&](const at::Tensor& matrix) {
      return matrix.slice(0, layer * heads, (layer + 1) * heads).slice(1, layer * heads, (layer + 1) * heads);
    };
    const bool last = layer + 1 == layers;
    const auto next = [&](const at::Tensor& matrix) {
      return last ? std::string("-") : number(matrix[layer][layer + 1].item<double>());
    };
    rows.push_back({{.text = detail::concat("layer ", layer)},
                    {.text = scores ? number(gini_of[layer]) : "-"},
                    {.text = scores ? number((*scores)[layer].max().item<double>()) : "-"},
                    {.text = number(analysis.distance[layer].mean().item<double>(), "%.1f")},
                    {.text = number(analysis.entropy[layer].mean().item<double>(), "%.2f")},
                    {.text = number(analysis.sink[layer].mean().item<double>())},
                    {.text = number(analysis.rms[layer].mean().item<double>())},
                    {.text = number(off_diagonal_mean(block(analysis.head_cosine)))},
                    {.text = number(off_diagonal_mean(block(analysis.head_cka)))},
                    {.text = next(analysis.layer_cosine)},
                    {.text = next(analysis.layer_cka)}});
  }
  return metrics::html_table({"", "Gini", "largest score", "distance", "entropy", "first token", "RMS",
                              "cosine of its heads", "CKA of its heads", "cosine to the next", "CKA to the next"},
                             rows);
}

std::string importance_section(const at::Tensor& scores) {
  double sum = 0, least = 1, most = 0;
  int known = 0;
  for (const double value : ginis(scores)) {
    if (std::isfinite(value)) {
      sum += value;
      least = std::min(least, value);
      most = std::max(most, value);
      ++known;
    }
  }
  const std::string text =
      known == 0 ? std::string("No head has a score above 0.")
                 : detail::concat("Gini coefficient of the scores within a layer: mean ", number(sum / known),
                                  ", from ", number(least), " to ", number(most), ", over the ", known, " of ",
                                  scores.size(0), " layers that hold a score above 0. 0: all heads matter alike; ",
                                  number(1.0 - 1.0 / static_cast<double>(scores.size(1))), ": one head holds it all.");
  return metrics::html_section("Importance", heads_svg("score of each head", scores) + metrics::html_paragraph(text));
}

std::string analysis_html(const std::string& model_name, const std::string& inputs, const HeadAnalysis& analysis,
                          const std::optional<at::Tensor>& scores) {
  const std::string title = "Heads of " + model_name;
  std::string body = "<h1>" + metrics::escape_xml(title) + "</h1>\n<p class=\"lead\">";
  body +=
      metrics::escape_xml(detail::concat(analysis.tokens, " tokens in ", analysis.sequences, " sequences: ", inputs));
  body += "</p>\n";
  body += scores ? importance_section(*scores) : "";
  body += metrics::html_section(
      "Where heads look",
      heads_svg("mean attention distance, tokens", analysis.distance) +
          heads_svg("attention entropy, nats", analysis.entropy) +
          heads_svg("attention to the first token", analysis.sink) +
          heads_svg("RMS of the head's output", analysis.rms) +
          metrics::html_paragraph("Distance and entropy without the first query and the first key of a sequence, rows "
                                  "renormalised; means over all other queries."));
  body += metrics::html_section(
      "How alike the layers are",
      similarity_svg("cosine of attention outputs", analysis.layer_cosine, true, "layer", 0) +
          similarity_svg("linear CKA of attention outputs", analysis.layer_cka, false, "layer", 0) +
          metrics::html_paragraph(
              "Cosine: mean over tokens, of what the attention sublayer adds to the residual stream. "
              "CKA: over tokens, of the same outputs, centred."));
  const std::int64_t heads = analysis.rms.size(1);
  body += metrics::html_section(
      "How alike the heads are",
      similarity_svg("cosine of what heads add", analysis.head_cosine, true, "head", heads) +
          similarity_svg("linear CKA of head outputs", analysis.head_cka, false, "head", heads) +
          metrics::html_paragraph(detail::concat(
              "Heads of all layers in order, ", heads,
              " a layer between two lines. Cosine: mean over tokens, of W_O[:, h] O_h. CKA: of O_h, centred.")));
  body += metrics::html_section("By layer", layers_table(analysis, scores));
  return metrics::html_page(title, body);
}

}  // namespace

Json analysis_json(const HeadAnalysis& analysis, const std::optional<at::Tensor>& scores) {
  Json json = {{"format", "hydrahead head analysis 1"},
               {"tokens", analysis.tokens},
               {"sequences", analysis.sequences},
               {"attention_distance", matrix_json(analysis.distance)},
               {"attention_entropy", matrix_json(analysis.entropy)},
               {"first_token_share", matrix_json(analysis.sink)},
               {"rms", matrix_json(analysis.rms)},
               {"layer_cosine", matrix_json(analysis.layer_cosine)},
               {"layer_cka", matrix_json(analysis.layer_cka)},
               {"head_cosine", matrix_json(analysis.head_cosine)},
               {"head_cka", matrix_json(analysis.head_cka)},
               {"scores", nullptr},
               {"gini", nullptr}};
  if (scores) {
    json["scores"] = matrix_json(*scores);
    json["gini"] = Json::array();
    for (const double value : ginis(*scores)) {
      json["gini"].push_back(json_number(value));
    }
  }
  return json;
}

void write_analysis(const fs::path& dir, const std::string& model_name, const std::string& inputs,
                    const HeadAnalysis& analysis, const std::optional<at::Tensor>& scores) {
  fs::create_directories(dir);
  Json json = analysis_json(analysis, scores);
  json["model"] = model_name;
  json["inputs"] = inputs;
  write_file_atomic(dir / "analysis.json", json.dump() + "\n");
  write_file_atomic(dir / "analysis.html", analysis_html(model_name, inputs, analysis, scores));
}

}  // namespace hydra::select
