#pragma once
// Times of the gated delta rule alone on one GPU, against the floor that its arithmetic and its bytes set. Only in
// builds with CUDA.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/ops/gated_delta.hpp"

namespace hydra::train {

struct GdnShape {
  std::int64_t batch = 0, tokens = 0, heads = 0;
};

struct BenchGdnOptions {
  std::vector<GdnShape> shapes;
  std::int64_t head_dim = 128;
  // Gates: "hydra": half-life log-uniform in 16..8192 tokens a head; "init": A uniform in (0, 16), dt log-uniform in
  // [1e-3, 0.1], log decay -A dt. Either times exp(0.3 randn) a token; beta = sigmoid(randn).
  std::string gate = "hydra";
  std::optional<ops::GatedDeltaPath> path;  // else the one that ops::gated_delta takes
  bool forward = true, backward = true, decode = true;
};

// bf16, sequences of equal length, as many key as value heads. Medians; peak memory without the inputs.
Json bench_gdn(const BenchGdnOptions& options);

// The record of bench_gdn as text for people.
std::string bench_gdn_text(const Json& record);

}  // namespace hydra::train
