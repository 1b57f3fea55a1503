#pragma once
// Random branches for ops::fuse_heads under every option, for the CPU and GPU tests.

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/ops/head_output.hpp"
#include "tests/support/gradients.hpp"

namespace hydra::test {

enum class CaseGate { none, elementwise, headwise, silu };
enum class CaseAmplitude { none, shared, per_row };

struct HeadOutputCase {
  std::int64_t rows = 7, size = 16;
  std::vector<std::int64_t> fa{1, 4}, gdn{0, 2, 3};  // places
  CaseGate fa_gate = CaseGate::elementwise, gdn_gate = CaseGate::elementwise;
  CaseAmplitude amplitude = CaseAmplitude::shared;
  bool gate_first = false;
  bool fused = false;  // heads and gates are slices of wider rows

  std::int64_t heads() const { return static_cast<std::int64_t>(fa.size() + gdn.size()); }
  std::string name() const {
    const auto number = [](auto x) { return std::to_string(static_cast<int>(x)); };
    return "N " + number(rows) + ", d " + number(size) + ", heads " + number(fa.size()) + "+" + number(gdn.size()) +
           ", gates " + number(fa_gate) + number(gdn_gate) + ", amplitude " + number(amplitude) +
           (gate_first ? ", gate first" : "") + (fused ? ", fused" : "");
  }
};

// FA heads, FA gate, GDN heads, GDN gate, amplitudes; undefined where the case has none. fp64 on the CPU; the second
// row of heads is zero.
inline Tensors head_output_arguments(const HeadOutputCase& c) {
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  Tensors x(5);
  const auto fill = [&](std::size_t at, std::size_t count, CaseGate gate) {
    if (count == 0) {
      return;
    }
    const auto h = static_cast<std::int64_t>(count);
    x[at] = random({c.rows, h, c.size});
    if (c.rows > 1) {
      x[at][1].zero_();
    }
    if (gate != CaseGate::none) {
      x[at + 1] = random({c.rows, h, gate == CaseGate::headwise ? 1 : c.size}) * 2;
    }
  };
  fill(0, c.fa.size(), c.fa_gate);
  fill(2, c.gdn.size(), c.gdn_gate);
  if (c.amplitude != CaseAmplitude::none) {
    x[4] = c.amplitude == CaseAmplitude::shared ? random({c.heads()}) : random({c.rows, c.heads()});
  }
  return x;
}

// Heads and gates in `type`, amplitudes in `statistics`; heads and gates rounded to `rounded` before.
inline Tensors moved(const HeadOutputCase& c, Tensors x, at::Device device, at::ScalarType type,
                     at::ScalarType statistics, at::ScalarType rounded) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i].defined()) {
      continue;
    }
    x[i] = x[i].to(i < 4 ? rounded : at::kFloat).to(device, i < 4 ? type : statistics);
    if (c.fused && i < 4) {
      const std::int64_t width = x[i].size(1) * x[i].size(2);
      const at::Tensor slice = at::zeros({c.rows, width + 24}, x[i].options()).narrow(1, 16, width).view(x[i].sizes());
      x[i] = slice.copy_(x[i]);
    }
  }
  return x;
}

using FuseHeadsPath = decltype(&ops::fuse_heads_aten);

inline Evaluation run_fuse_heads(FuseHeadsPath path, const HeadOutputCase& c, const Tensors& arguments) {
  const auto activation = [](CaseGate gate) {
    return gate == CaseGate::silu ? ops::GateActivation::silu : ops::GateActivation::sigmoid;
  };
  return evaluate(
      [&](const Tensors& x) {
        return Tensors{path({{x[0], x[1], activation(c.fa_gate)}, c.fa}, {{x[2], x[3], activation(c.gdn_gate)}, c.gdn},
                            x[4], {.normalize = true, .gate_first = c.gate_first, .eps = 1e-2})};
      },
      arguments);
}

inline std::vector<HeadOutputCase> head_output_options() {
  std::vector<HeadOutputCase> all;
  const auto add = [&](auto change) {
    HeadOutputCase c;
    change(c);
    all.push_back(c);
  };
  for (const CaseGate gate : {CaseGate::none, CaseGate::elementwise, CaseGate::headwise, CaseGate::silu}) {
    for (const CaseAmplitude amplitude : {CaseAmplitude::none, CaseAmplitude::shared, CaseAmplitude::per_row}) {
      add([&](HeadOutputCase& c) {
        c.fa_gate = gate;
        c.amplitude = amplitude;
      });
      add([&](HeadOutputCase& c) {
        c.fa_gate = gate;
        c.gdn_gate = CaseGate::silu;
        c.amplitude = amplitude;
        c.gate_first = true;
      });
    }
  }
  add([](HeadOutputCase& c) { c.fused = true; });
  add([](HeadOutputCase& c) {
    c.fa = {};
    c.gdn = {0, 1, 2};
    c.gdn_gate = CaseGate::none;
  });
  add([](HeadOutputCase& c) {
    c.fa = {0, 1, 2};
    c.gdn = {};
    c.fa_gate = CaseGate::headwise;
  });
  return all;
}

}  // namespace hydra::test
