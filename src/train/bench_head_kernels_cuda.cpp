// Bytes are those that must move once; the ops are called as the model calls them, with their allocations.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <functional>

#include "event_timer.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/elementwise.hpp"
#include "hydrahead/ops/gdn_inputs.hpp"
#include "hydrahead/ops/head_output.hpp"
#include "hydrahead/train/bench_head_kernels.hpp"
#include "hydrahead/train/device_info.hpp"

namespace hydra::train {
namespace {

using Tensors = std::vector<at::Tensor>;

// A differentiable call and the bytes that its passes move.
struct Subject {
  const char* name;
  std::function<Tensors(const Tensors&)> call;
  Tensors inputs;
  double forward_bytes, backward_bytes;
};

Tensors leaves(Tensors inputs) {
  for (at::Tensor& x : inputs) {
    x.requires_grad_(true);
  }
  return inputs;
}

at::Tensor random(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16) {
  return at::randn(shape, at::TensorOptions(at::kCUDA).dtype(at::kFloat)).to(type);
}

Subject gdn_inputs_subject(const BenchHeadKernelsOptions& o) {
  const at::Tensor angle = random({o.rows, o.head_dim / 2}, at::kFloat);
  const at::Tensor cos = angle.cos(), sin = angle.sin();
  const auto n = static_cast<double>(o.rows), h = static_cast<double>(o.heads), d = static_cast<double>(o.head_dim);
  const double directions = 2 * n * h * d * 2, tables = n * d * 4, gates = n * h;
  return {
      "gdn_inputs",
      [cos, sin](const Tensors& x) {
        const auto y = ops::gdn_inputs(x[0], x[1], x[2], x[3], {x[4], x[5], x[6], x[7], x[8]}, cos, sin, 1e-6, 1.0);
        return Tensors{y.q, y.k, y.g, y.beta};
      },
      leaves({random({o.rows, o.heads, o.head_dim}), random({o.rows, o.heads, o.head_dim}), random({o.rows, o.heads}),
              random({o.rows, o.heads}), random({o.head_dim}, at::kFloat), random({o.head_dim}, at::kFloat),
              random({o.heads}, at::kFloat), random({o.heads}, at::kFloat), random({o.heads}, at::kFloat)}),
      2 * directions + tables + 12 * gates, 3 * directions + tables + 16 * gates};
}

Subject head_output_subject(const BenchHeadKernelsOptions& o) {
  std::vector<std::int64_t> fa, gdn;
  for (std::int64_t h = 0; h < o.heads; ++h) {
    (h % 4 == 1 ? fa : gdn).push_back(h);
  }
  const auto branch = [&](const std::vector<std::int64_t>& places) {
    return random({o.rows, static_cast<std::int64_t>(places.size()), o.head_dim});
  };
  const double array = static_cast<double>(o.rows * o.heads * o.head_dim) * 2;
  return {"head_output",
          [fa, gdn](const Tensors& x) {
            return Tensors{ops::fuse_heads({{x[0], x[1]}, fa}, {{x[2], x[3]}, gdn}, x[4], {})};
          },
          leaves({branch(fa), branch(fa), branch(gdn), branch(gdn), random({o.heads}, at::kFloat)}), 3 * array,
          5 * array};
}

Subject short_conv_subject(const BenchHeadKernelsOptions& o) {
  const auto sequences = ops::make_sequences({o.rows}, at::Device(at::kCUDA, 0));
  const double array = static_cast<double>(o.rows * o.heads * o.head_dim) * 2;
  return {"short_conv",
          [sequences](const Tensors& x) {
            return Tensors{ops::short_conv(x[0], x[1], sequences, {}, /*silu=*/true).output};
          },
          leaves({random({o.rows, o.heads * o.head_dim}), random({o.heads * o.head_dim, 4}, at::kFloat)}), 2 * array,
          3 * array};
}

}  // namespace

Json bench_head_kernels(const BenchHeadKernelsOptions& options) {
  HYDRA_REQUIRE(at::hasCUDA(), "bench heads: no CUDA device");
  HYDRA_REQUIRE(options.heads >= 2, "bench heads: found ", options.heads, " heads, expected at least 2");
  at::manual_seed(1);
  EventTimer timer;
  const double copy = 1e-9 * timer.copy_bytes_per_second();
  Json record;
  record["device"] = device_info(at::Device(at::kCUDA, 0)).name;
  record["rows_of_input"] = options.rows;
  record["heads"] = options.heads;
  record["head_dim"] = options.head_dim;
  record["copy_gb_per_second"] = copy;
  record["rows"] = Json::array();
  for (const auto& make : {gdn_inputs_subject, head_output_subject, short_conv_subject}) {
    const Subject subject = make(options);
    const auto add = [&](const char* pass, double ms, double bytes) {
      const double rate = 1e-6 * bytes / ms;
      record["rows"].push_back({{"kernel", subject.name},
                                {"pass", pass},
                                {"ms", ms},
                                {"gb_per_second", rate},
                                {"share_of_copy", rate / copy}});
    };
    {
      const at::NoGradGuard no_grad;
      add("forward", timer.median_ms([&] { subject.call(subject.inputs); }), subject.forward_bytes);
    }
    const Tensors outputs = subject.call(subject.inputs);
    Tensors upstream;
    for (const at::Tensor& y : outputs) {
      upstream.push_back(at::randn_like(y));
    }
    const auto backward = [&] { torch::autograd::grad(outputs, subject.inputs, upstream, /*retain_graph=*/true); };
    add("backward", timer.median_ms(backward), subject.backward_bytes);
  }
  return record;
}

std::string bench_head_kernels_text(const Json& record) {
  const auto integer = [&](const char* key) { return static_cast<long long>(record[key].get<std::int64_t>()); };
  char text[256];
  std::snprintf(text, sizeof text, "%s, N %lld, H %lld, d %lld, bf16, copy %.0f GB/s\n",
                record["device"].get<std::string>().c_str(), integer("rows_of_input"), integer("heads"),
                integer("head_dim"), record["copy_gb_per_second"].get<double>());
  std::string result = text;
  for (const Json& row : record["rows"]) {
    std::snprintf(text, sizeof text, "%-12s %-8s %8.4f ms  %6.0f GB/s  %3.0f%% of copy\n",
                  row["kernel"].get<std::string>().c_str(), row["pass"].get<std::string>().c_str(),
                  row["ms"].get<double>(), row["gb_per_second"].get<double>(),
                  100 * row["share_of_copy"].get<double>());
    result += text;
  }
  return result;
}

}  // namespace hydra::train
