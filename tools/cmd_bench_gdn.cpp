// hydrahead bench gdn: the gated delta rule alone, forward, backward and decode.

#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "bench_verbs.hpp"
#include "gdn_kernel_option.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/train/bench_gdn.hpp"
#include "option_checks.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::vector<std::string> shapes, passes;
  std::string path = "auto", json;
  train::BenchGdnOptions bench;
};

train::GdnShape parse_shape(const std::string& text) {
  std::int64_t values[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool valid = true;
  for (int i = 0; i < 3 && valid; ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    valid = error == std::errc() && values[i] > 0 && (i < 2 ? next < end && *next == ',' : next == end);
    at = next + 1;
  }
  HYDRA_REQUIRE(valid, "--shape: found '", text, "', expected three positive numbers B,T,H");
  return {values[0], values[1], values[2]};
}

void run(const Options& options) {
  train::BenchGdnOptions bench = options.bench;
  for (const std::string& shape : options.shapes) {
    bench.shapes.push_back(parse_shape(shape));
  }
  if (bench.shapes.empty()) {
    bench.shapes = {{8, 4096, 16}, {4, 8192, 16}, {32, 1024, 16}, {1, 32768, 16}, {1, 131072, 14}, {1, 524288, 14}};
  }
  if (!options.passes.empty()) {
    const auto has = [&](const char* pass) {
      return std::find(options.passes.begin(), options.passes.end(), pass) != options.passes.end();
    };
    bench.forward = has("fwd");
    bench.backward = has("bwd");
    bench.decode = has("decode");
  }
  bench.path = gdn_kernel(options.path);
#if HYDRA_CUDA
  const Json record = train::bench_gdn(bench);
  report_bench(record, train::bench_gdn_text(record), options.json);
#else
  fail_request("bench gdn: this build has no CUDA kernels");
#endif
}

}  // namespace

void add_bench_gdn(CLI::App& bench) {
  auto* verb = bench.add_subcommand("gdn", "The gated delta rule alone on one GPU: forward, backward, decode; bf16");
  const auto options = std::make_shared<Options>();
  verb->add_option("--shape", options->shapes, "B,T,H: sequences, tokens of each, heads; repeatable")->take_all();
  verb->add_option("--head-dim", options->bench.head_dim, "64 or 128")->check(one_of({"64", "128"}));
  verb->add_option("--gate", options->bench.gate,
                   "hydra: half-lives log-uniform in 16..8192 tokens; init: A in (0, 16), dt in 1e-3..0.1")
      ->check(one_of({"hydra", "init"}));
  verb->add_option("--path", options->path, "auto, portable, mma, wgmma or aten")
      ->check(one_of({std::begin(kGdnKernels), std::end(kGdnKernels)}));
  verb->add_option("--pass", options->passes, "fwd, bwd or decode; repeatable (default: all)")
      ->take_all()
      ->check(one_of({"fwd", "bwd", "decode"}));
  verb->add_option("--json", options->json, "Write the record to this file");
  verb->callback([options] { run(*options); });
}

}  // namespace hydra::tools
