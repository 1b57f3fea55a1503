#pragma once
// Inputs on the GPU, the fp64 reference and error limits for the tests of the gated delta rule's CUDA kernels.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iomanip>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/ops/gated_delta_cuda.hpp"
#include "src/ops/gated_delta_blocks.hpp"
#include "tests/ops/gated_delta_cases.hpp"
#include "tests/support/cuda.hpp"

namespace hydra::test {

struct KernelPath {
  ops::GatedDeltaPath path;
  at::ScalarType type;
};

inline std::string name_of(const KernelPath& path) {
  return std::string(ops::name_of(path.path)) + (path.type == at::kFloat ? "_fp32" : "_bf16");
}

class ForcedPath {
 public:
  explicit ForcedPath(ops::GatedDeltaPath path) { ops::force_gated_delta_path(path); }
  ~ForcedPath() { ops::force_gated_delta_path(std::nullopt); }
  ForcedPath(const ForcedPath&) = delete;
  ForcedPath& operator=(const ForcedPath&) = delete;
};

// A case on the GPU in the types that the kernels read, with gradients of both results.
struct DeltaProblem {
  DeltaCase c;
  at::Tensor d_output, d_state;
};

// q, k, v and d_output rounded to `type`, all else to fp32.
inline DeltaProblem stored(DeltaCase c, at::ScalarType type) {
  DeltaProblem p;
  p.d_output = at::randn_like(c.x[2]).to(type);
  p.d_state =
      at::randn({c.sequences.count(), c.x[2].size(1), c.x[2].size(2), c.x[0].size(2)}, c.x[2].options()).to(at::kFloat);
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    if (c.x[i].defined()) {
      c.x[i] = c.x[i].to(i < 3 ? type : at::kFloat);
    }
  }
  p.c = std::move(c);
  return p;
}

inline ops::GatedDeltaTensors tensors_of(const DeltaCase& c) {
  return {c.x[0], c.x[1], c.x[2], c.x[3], c.x[4], c.x[5], c.sequences.offsets_device, c.scale};
}

// In fp64: the recurrence, or for long sequences the chunked ATen form, which the CPU tests hold to it.
inline DeltaResult reference(const DeltaProblem& p) {
  DeltaCase wide = p.c;
  for (auto& x : wide.x) {
    x = x.defined() ? x.to(at::kDouble) : x;
  }
  const DeltaRule chunked = [](const DeltaCase& c) {
    return ops::gated_delta_aten(c.x[0], c.x[1], c.x[2], c.x[3], c.x[4], c.scale, c.sequences, c.x[5], true);
  };
  return run_delta(p.c.sequences.max_length <= 130 ? recurrent_rule() : chunked, wide, p.d_output.to(at::kDouble),
                   p.d_state.to(at::kDouble));
}

// Relative L2 errors of every result. Gradients whose reference is near 0 (dg under strong decay) are measured against
// 1e-3 of the norm of dv, or of d_output where dv is 0.
inline constexpr std::array<const char*, 8> kErrorNames = {"o", "state", "dq", "dk", "dv", "dg", "dbeta", "dS0"};
using DeltaErrors = std::array<double, 8>;

inline DeltaErrors errors_of(const DeltaResult& actual, const DeltaResult& expected, const at::Tensor& d_output) {
  const auto norm = [](const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); };
  const auto error = [&](const at::Tensor& a, const at::Tensor& b, double least) {
    return norm(a.to(at::kDouble) - b) / std::max({norm(b), least, 1e-30});
  };
  const double dv = norm(expected.gradient[2]);
  const double least = 1e-3 * (dv > 0 ? dv : norm(d_output));
  DeltaErrors errors{};
  errors[0] = error(actual.output, expected.output, 0);
  errors[1] = error(actual.final_state, expected.final_state, 0);
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    if (expected.gradient[i].defined()) {
      errors[2 + i] = error(actual.gradient[i], expected.gradient[i], least);
    }
  }
  return errors;
}

inline double limit_of(const KernelPath& path, std::size_t kind) {
  return path.type == at::kFloat ? 1e-5 : kind == 5 ? 1e-2 : 5e-3;
}

// The largest error of each kind that a path has shown, for one summary line at the end.
class ErrorSummary {
 public:
  void add(const std::string& path, const DeltaErrors& errors) {
    auto& worst = worst_.try_emplace(path, DeltaErrors{}).first->second;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      worst[i] = errors[i] > worst[i] || errors[i] != errors[i] ? errors[i] : worst[i];
    }
  }
  std::string text() const {
    std::ostringstream out;
    for (const auto& [path, errors] : worst_) {
      out << "largest errors, " << path << ":" << line(errors) << "\n";
    }
    return out.str();
  }
  static std::string line(const DeltaErrors& errors) {
    std::ostringstream out;
    out << std::scientific << std::setprecision(1);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      out << " " << kErrorNames[i] << " " << errors[i];
    }
    return out.str();
  }

 private:
  std::map<std::string, DeltaErrors> worst_;
};

}  // namespace hydra::test
