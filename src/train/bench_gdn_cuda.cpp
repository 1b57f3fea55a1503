// Decode steps run as a graph over the states of 28 layers, as a model runs them.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>

#include "event_timer.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/ops/gated_delta_cuda.hpp"
#include "hydrahead/train/bench_gdn.hpp"
#include "hydrahead/train/device_info.hpp"

namespace hydra::train {
namespace {

constexpr double kFlops = 790e12, kBytes = 4.3e12;  // rates of the floor
constexpr double kChunk = 64.0;
constexpr std::int64_t kLayers = 28;

at::Tensor unit_rows(std::int64_t rows, std::int64_t heads, std::int64_t size) {
  const auto x = at::randn({rows, heads, size}, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  return x.div_(x.norm(2, {-1}, true)).to(at::kBFloat16);
}

at::Tensor log_decay(const std::string& gate, std::int64_t rows, std::int64_t heads) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  const auto log_uniform = [&](double low, double high) {
    return at::rand({heads}, options).mul_(std::log(high / low)).add_(std::log(low)).exp_();
  };
  at::Tensor rate;
  if (gate == "hydra") {
    rate = std::log(2.0) / log_uniform(16, 8192);
  } else {
    HYDRA_REQUIRE(gate == "init", "--gate: found '", gate, "', expected hydra or init");
    rate = at::rand({heads}, options).mul_(16) * log_uniform(1e-3, 0.1);
  }
  return at::randn({rows, heads}, options).mul_(0.3).exp_().mul_(rate).neg_();
}

ops::GatedDeltaTensors random_inputs(const GdnShape& shape, std::int64_t size, const std::string& gate) {
  at::manual_seed(1);
  const std::int64_t rows = shape.batch * shape.tokens;
  const auto options = at::TensorOptions(at::kCUDA);
  ops::GatedDeltaTensors x;
  x.q = unit_rows(rows, shape.heads, size);
  x.k = unit_rows(rows, shape.heads, size);
  x.v = at::randn({rows, shape.heads, size}, options.dtype(at::kBFloat16));
  x.g = log_decay(gate, rows, shape.heads);
  x.beta = at::sigmoid(at::randn({rows, shape.heads}, options.dtype(at::kFloat)));
  x.offsets = at::arange(0, rows + 1, shape.tokens, options.dtype(at::kInt));
  x.scale = 1.0 / std::sqrt(static_cast<double>(size));
  return x;
}

struct Work {
  double flops = 0.0, bytes = 0.0;  // of one token and head
};
Work forward_work(double d) { return {8 * kChunk * d + 6 * d * d, 8 * d + 8}; }
Work backward_work(double d) { return {20 * kChunk * d + 14 * d * d, 14 * d + 16}; }

Json timed(const char* pass, double ms, const Work& work, double token_heads) {
  const double flops = work.flops * token_heads;
  const double bytes = work.bytes * token_heads;
  const double floor_ms = 1e3 * std::max(flops / kFlops, bytes / kBytes);
  return {{"pass", pass},
          {"ms", ms},
          {"tflops", 1e-9 * flops / ms},
          {"gb_per_second", 1e-6 * bytes / ms},
          {"floor_ms", floor_ms},
          {"times_floor", ms / floor_ms}};
}

// Most bytes that `body` holds beyond what is held before it.
std::int64_t peak_beyond(const std::function<void()>& body) {
  const at::Device device(at::kCUDA, 0);
  reset_peak_memory(device);
  const std::int64_t before = peak_memory(device);
  body();
  synchronize(device);
  return peak_memory(device) - before;
}

// Rows of one shape by the kernels of a path.
void time_kernels(EventTimer& timer, const BenchGdnOptions& options, ops::GatedDeltaPath path,
                  const ops::GatedDeltaTensors& x, const std::function<void(Json)>& add) {
  const double d = static_cast<double>(options.head_dim);
  const auto token_heads = static_cast<double>(x.g.numel());
  const auto forward = [&](bool inverse) { return ops::gated_delta_forward(path, x, true, inverse); };
  if (options.forward) {
    for (const bool inverse : {false, true}) {
      if (inverse && path == ops::GatedDeltaPath::portable) {
        continue;  // it keeps nothing for the backward pass
      }
      Json row = timed(inverse ? "forward, training" : "forward", timer.median_ms([&] { forward(inverse); }),
                       forward_work(d), token_heads);
      row["peak_bytes"] = peak_beyond([&] { forward(inverse); });
      add(row);
    }
  }
  if (options.backward) {
    const auto d_output = at::randn_like(x.v);
    auto y = forward(true);
    Json row = timed("backward", timer.median_ms([&] { ops::gated_delta_backward(path, x, y.saved, d_output, {}); }),
                     backward_work(d), token_heads);
    y = {};
    row["peak_bytes"] = peak_beyond([&] {  // of both passes
      const auto kept = forward(true);
      ops::gated_delta_backward(path, x, kept.saved, d_output, {});
    });
    add(row);
  }
}

// The same by batched ATen products.
void time_aten(EventTimer& timer, const BenchGdnOptions& options, const GdnShape& shape,
               const ops::GatedDeltaTensors& x, const std::function<void(Json)>& add) {
  const double d = static_cast<double>(options.head_dim);
  const auto token_heads = static_cast<double>(x.g.numel());
  const auto sequences = ops::make_sequences(
      std::vector<std::int64_t>(static_cast<std::size_t>(shape.batch), shape.tokens), at::Device(at::kCUDA, 0));
  const auto forward = [&] { return ops::gated_delta(x.q, x.k, x.v, x.g, x.beta, x.scale, sequences).output; };
  if (options.forward) {
    Json row = timed("forward", timer.median_ms(forward), forward_work(d), token_heads);
    row["peak_bytes"] = peak_beyond(forward);
    add(row);
  }
  if (options.backward) {
    const at::AutoGradMode grad(true);
    const std::vector<at::Tensor> inputs{x.q, x.k, x.v, x.g, x.beta};
    for (auto input : inputs) {
      input.requires_grad_(true);
    }
    const auto d_output = at::randn_like(x.v);
    auto y = forward();
    Json row = timed("backward", timer.median_ms([&] { torch::autograd::grad({y}, inputs, {d_output}, true); }),
                     backward_work(d), token_heads);
    y.reset();
    row["peak_bytes"] = peak_beyond([&] { torch::autograd::grad({forward()}, inputs, {d_output}); });
    add(row);
  }
}

Json time_decode(EventTimer& timer, std::int64_t batch, std::int64_t heads, std::int64_t size) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const auto x = random_inputs({batch, 1, heads}, size, "hydra");
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
  std::vector<at::Tensor> states;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    states.push_back(at::randn({batch, heads, size, size}, options));
  }
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  for (at::Tensor& state : states) {
    ops::gated_delta_decode(x, state);
  }
  graph.capture_end();
  const double us = 1e3 * timer.median_ms([&] { graph.replay(); }) / static_cast<double>(kLayers);
  const double bytes = 2.0 * static_cast<double>(states.front().nbytes());
  return {{"pass", "decode"},
          {"batch", batch},
          {"heads", heads},
          {"us", us},
          {"gb_per_second", 1e-3 * bytes / us},
          {"floor_us", 1e6 * bytes / kBytes}};
}

}  // namespace

Json bench_gdn(const BenchGdnOptions& options) {
  HYDRA_REQUIRE(at::hasCUDA(), "bench gdn: no CUDA device");
  const at::NoGradGuard no_grad;
  EventTimer timer;
  Json record;
  record["device"] = device_info(at::Device(at::kCUDA, 0)).name;
  record["head_dim"] = options.head_dim;
  record["gate"] = options.gate;
  record["copy_gb_per_second"] = 1e-9 * timer.copy_bytes_per_second();
  record["rows"] = Json::array();
  ops::force_gated_delta_path(options.path);
  if (options.forward || options.backward) {
    for (const GdnShape& shape : options.shapes) {
      const auto x = random_inputs(shape, options.head_dim, options.gate);
      const auto path = ops::gated_delta_path(x);
      const auto add = [&](Json row) {
        row["path"] = ops::name_of(path);
        row["batch"] = shape.batch;
        row["tokens"] = shape.tokens;
        row["heads"] = shape.heads;
        record["rows"].push_back(std::move(row));
      };
      if (path == ops::GatedDeltaPath::aten) {
        time_aten(timer, options, shape, x, add);
      } else {
        time_kernels(timer, options, path, x, add);
      }
    }
  }
  ops::force_gated_delta_path(std::nullopt);
  if (options.decode) {
    for (const std::int64_t batch : {32, 1}) {
      record["rows"].push_back(time_decode(timer, batch, 16, options.head_dim));
    }
  }
  return record;
}

std::string bench_gdn_text(const Json& record) {
  char text[512];
  std::snprintf(text, sizeof text, "%s, head size %lld, gate %s, copy %.2f TB/s\n",
                record["device"].get<std::string>().c_str(),
                static_cast<long long>(record["head_dim"].get<std::int64_t>()),
                record["gate"].get<std::string>().c_str(), 1e-3 * record["copy_gb_per_second"].get<double>());
  std::string result = text;
  for (const Json& row : record["rows"]) {
    const auto number = [&](const char* key) { return row[key].get<double>(); };
    const auto integer = [&](const char* key) { return static_cast<long long>(row[key].get<std::int64_t>()); };
    if (row["pass"] == "decode") {
      std::snprintf(text, sizeof text, "decode, %lld sequences x %lld heads: %.2f us (floor %.2f), %.0f GB/s\n",
                    integer("batch"), integer("heads"), number("us"), number("floor_us"), number("gb_per_second"));
    } else {
      std::snprintf(text, sizeof text,
                    "%3lld x %7lld x %2lld %-17s %-8s %9.3f ms  %6.1f TFLOP/s  %6.0f GB/s  %5.2f x floor  %7.3f GiB\n",
                    integer("batch"), integer("tokens"), integer("heads"), row["pass"].get<std::string>().c_str(),
                    row["path"].get<std::string>().c_str(), number("ms"), number("tflops"), number("gb_per_second"),
                    number("times_floor"), number("peak_bytes") / (1 << 30));
    }
    result += text;
  }
  return result;
}

}  // namespace hydra::train
