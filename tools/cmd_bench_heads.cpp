// hydrahead bench heads: the kernels around the gated delta rule, as shares of the copy rate.

#include <memory>
#include <string>

#include "bench_verbs.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/train/bench_head_kernels.hpp"
#include "option_checks.hpp"

namespace hydra::tools {
namespace {

struct Options {
  std::string json;
  train::BenchHeadKernelsOptions bench;
};

void run([[maybe_unused]] const Options& options) {
#if HYDRA_CUDA
  const Json record = train::bench_head_kernels(options.bench);
  report_bench(record, train::bench_head_kernels_text(record), options.json);
#else
  fail_request("bench heads: this build has no CUDA kernels");
#endif
}

}  // namespace

void add_bench_heads(CLI::App& bench) {
  auto* verb = bench.add_subcommand(
      "heads", "Inputs of the gated delta rule, fused heads and short convolution on one GPU: forward, backward; bf16");
  const auto options = std::make_shared<Options>();
  verb->add_option("--rows", options->bench.rows, "Tokens")->check(integer_from(1, 1 << 24));
  verb->add_option("--heads", options->bench.heads, "Heads, a quarter of them with full attention")
      ->check(integer_from(2, 256));
  verb->add_option("--head-dim", options->bench.head_dim, "64 or 128")->check(one_of({"64", "128"}));
  verb->add_option("--json", options->json, "Write the record to this file");
  verb->callback([options] { run(*options); });
}

}  // namespace hydra::tools
