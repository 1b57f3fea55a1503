#pragma once
// Comparison of a model with a file of reference outputs: the largest error of each kind beside its tolerance. This
// header has the file, the report and the check of plain forward outputs; cases of a hybrid with losses and gradients
// are checked by train/golden_case.hpp. Used by `hydrahead verify` and by the tests.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/io/safetensors.hpp"
#include "hydrahead/model/hydra_model.hpp"

namespace hydra::model {

// Reference tensors by key. Every message names file and key, what was found and what was expected.
class GoldenFile {
 public:
  static GoldenFile open(const std::filesystem::path& path) { return GoldenFile(io::SafetensorsFile::open(path)); }

  std::vector<std::string> keys() const;
  bool contains(const std::string& key) const { return file_.contains(key); }
  // fp64 on the CPU, or int64 for integers; a UserError if it is absent, of the other kind or not of `shape` (-1: any
  // size).
  at::Tensor values(const std::string& key, const std::vector<std::int64_t>& shape) const;
  at::Tensor integers(const std::string& key, const std::vector<std::int64_t>& shape) const;
  // Token ids (or positions, labels) in [0, limit).
  at::Tensor indices(const std::string& key, const std::vector<std::int64_t>& shape, std::int64_t limit) const;
  std::string path() const { return file_.path().string(); }

 private:
  explicit GoldenFile(io::SafetensorsFile file) : file_(std::move(file)) {}
  at::Tensor load(const std::string& key, const std::vector<std::int64_t>& shape, bool integral) const;
  io::SafetensorsFile file_;
};

// Largest error of one kind of output.
struct GoldenLine {
  std::string kind;
  std::string measure;
  double tolerance = 0.0;
  double error = 0.0;
  std::string where;          // key with the largest error
  std::int64_t compared = 0;  // tensors
};

struct GoldenReport {
  std::vector<GoldenLine> lines;
  std::vector<std::string> absent;  // kinds that the file does not hold

  void add(const std::string& kind, const std::string& measure, double tolerance, const std::string& where,
           double error);
  bool passed() const;  // something was compared and no error is beyond its tolerance
};

// Tolerances by the type that the model computes in. fp32 and fp64: what exact arithmetic allows; bf16: measured, with
// room for other devices.
struct GoldenTolerances {
  double logits = 2e-4;  // absolute
  double log_probability = 1e-4;
  double hidden = 1e-5;    // of the largest absolute value
  double greedy = 0.0;     // logits by which the reference token may lose
  double tensor = 1e-4;    // relative L2: outputs of a hybrid case
  double gradient = 1e-4;  // relative L2
  double loss = 1e-5;      // relative
  double argmax = 2e-4;    // logits by which the reference's choice may lose
};
GoldenTolerances golden_tolerances(at::ScalarType compute_type);

// Measures of error; a NaN on either side counts as infinite.
double largest_difference(const at::Tensor& found, const at::Tensor& expected);
double largest_relative_difference(const at::Tensor& found,
                                   const at::Tensor& expected);  // of expected's largest |value|
double relative_l2(const at::Tensor& found, const at::Tensor& expected);
// By how much, at most over rows, the largest logit of a row of hidden [N, D] exceeds the logit of choice [N].
double largest_margin(const Model& model, const at::Tensor& hidden, const at::Tensor& choice);

// Whether the file holds forward outputs of named sequences (<name>.input_ids and so on) rather than one hybrid case.
bool holds_forward_outputs(const GoldenFile& file);

// <name>.input_ids [T], .positions [P], .logits [P, V], .token_logprob [T-1], .hidden.<i> and .attn_out.<i> [P, D],
// .greedy [G], for any number of names: hidden 0 is the embedding, the last one comes after the final norm.
GoldenReport check_forward_outputs(const Model& model, const GoldenFile& file);

}  // namespace hydra::model
