// Reference files, error measures and the report of a comparison.

#include "hydrahead/model/golden.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hydrahead/base/error.hpp"

namespace hydra::model {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  }
  return text + "]";
}

bool fits(const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                    [](std::int64_t a, std::int64_t b) { return b < 0 || a == b; });
}

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kDouble); }

double infinite_if_nan(double error) { return std::isnan(error) ? std::numeric_limits<double>::infinity() : error; }

}  // namespace

std::vector<std::string> GoldenFile::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, info] : file_.header().tensors) {
    keys.push_back(key);
  }
  return keys;
}

at::Tensor GoldenFile::load(const std::string& key, const std::vector<std::int64_t>& shape, bool integral) const {
  HYDRA_REQUIRE(contains(key), path(), ": found no tensor '", key, "', expected one of shape ", shape_text(shape));
  const at::Tensor stored = file_.load(key);
  HYDRA_REQUIRE(fits(stored.sizes().vec(), shape), path(), ": ", key, ": found shape ",
                shape_text(stored.sizes().vec()), ", expected ", shape_text(shape));
  HYDRA_REQUIRE(integral == at::isIntegralType(stored.scalar_type(), /*includeBool=*/false), path(), ": ", key,
                ": found type ", file_.header().tensors.at(key).dtype, ", expected ",
                integral ? "integers" : "floating point");
  return stored.to(integral ? at::kLong : at::kDouble);
}

at::Tensor GoldenFile::values(const std::string& key, const std::vector<std::int64_t>& shape) const {
  return load(key, shape, false);
}

at::Tensor GoldenFile::integers(const std::string& key, const std::vector<std::int64_t>& shape) const {
  return load(key, shape, true);
}

at::Tensor GoldenFile::indices(const std::string& key, const std::vector<std::int64_t>& shape,
                               std::int64_t limit) const {
  const at::Tensor result = integers(key, shape);
  HYDRA_REQUIRE(result.numel() > 0, path(), ": ", key, ": found no values");
  const auto low = result.min().item<std::int64_t>();
  const auto high = result.max().item<std::int64_t>();
  HYDRA_REQUIRE(low >= 0 && high < limit, path(), ": ", key, ": found ", low < 0 ? low : high,
                ", expected values from 0 to ", limit - 1);
  return result;
}

void GoldenReport::add(const std::string& kind, const std::string& measure, double tolerance, const std::string& where,
                       double error) {
  error = infinite_if_nan(error);
  auto line = std::find_if(lines.begin(), lines.end(), [&](const GoldenLine& l) { return l.kind == kind; });
  if (line == lines.end()) {
    lines.push_back({kind, measure, tolerance, error, where, 1});
    return;
  }
  ++line->compared;
  if (error > line->error) {
    line->error = error;
    line->where = where;
  }
}

bool GoldenReport::passed() const {
  return !lines.empty() &&
         std::all_of(lines.begin(), lines.end(), [](const GoldenLine& line) { return line.error <= line.tolerance; });
}

GoldenTolerances golden_tolerances(at::ScalarType compute_type) {
  GoldenTolerances tolerances;
  if (compute_type == at::kBFloat16) {
    tolerances = {.logits = 1.5,
                  .log_probability = 0.5,
                  .hidden = 0.3,
                  .greedy = 0.5,
                  .tensor = 3e-2,
                  .gradient = 0.25,
                  .loss = 3e-2,
                  .argmax = 0.5};
  }
  return tolerances;
}

double largest_difference(const at::Tensor& found, const at::Tensor& expected) {
  return infinite_if_nan((on_cpu(found) - on_cpu(expected)).abs().max().item<double>());
}

double largest_relative_difference(const at::Tensor& found, const at::Tensor& expected) {
  const double scale = on_cpu(expected).abs().max().item<double>();
  const double difference = largest_difference(found, expected);
  return infinite_if_nan(scale > 0 ? difference / scale : difference);
}

double relative_l2(const at::Tensor& found, const at::Tensor& expected) {
  const double scale = on_cpu(expected).norm().item<double>();
  const double difference = (on_cpu(found) - on_cpu(expected)).norm().item<double>();
  return infinite_if_nan(scale > 0 ? difference / scale : difference);
}

double largest_margin(const Model& model, const at::Tensor& hidden, const at::Tensor& choice) {
  constexpr std::int64_t chunk_rows = 1024;
  const at::Tensor chosen = choice.to(hidden.device());
  double largest = 0.0;
  for (std::int64_t begin = 0; begin < hidden.size(0); begin += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, hidden.size(0) - begin);
    const at::Tensor logits = logits_of(model, hidden.narrow(0, begin, rows));
    const at::Tensor of_choice = logits.gather(1, chosen.narrow(0, begin, rows).unsqueeze(1)).squeeze(1);
    const at::Tensor margin = (logits.amax(1) - of_choice).max();
    largest = std::max(largest, infinite_if_nan(margin.item<double>()));
  }
  return largest;
}

}  // namespace hydra::model
