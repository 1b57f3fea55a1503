// verify: compares a model with a file of reference outputs and prints the largest error of each kind.

#include <cstdio>
#include <filesystem>
#include <memory>

#include "hydrahead/base/error.hpp"
#include "hydrahead/model/device.hpp"
#include "hydrahead/model/golden.hpp"
#include "hydrahead/train/golden_case.hpp"
#include "verbs.hpp"

namespace hydra::tools {
namespace {

struct VerifyArguments {
  std::string model, teacher, golden;
  std::string device = "cpu", precision = "fp32";
};

void print(const model::GoldenReport& report) {
  std::printf("%-34s %8s  %13s  %9s  %-32s  %-6s %s\n", "kind", "compared", "largest error", "tolerance", "measure",
              "result", "at");
  for (const model::GoldenLine& line : report.lines) {
    std::printf("%-34s %8lld  %13.3e  %9.1e  %-32s  %-6s %s\n", line.kind.c_str(),
                static_cast<long long>(line.compared), line.error, line.tolerance, line.measure.c_str(),
                line.error <= line.tolerance ? "PASS" : "FAIL", line.where.c_str());
  }
  for (const std::string& kind : report.absent) {
    std::printf("%-34s not in the file\n", kind.c_str());
  }
  std::printf("%s\n", report.passed() ? "PASS" : "FAIL");
}

model::GoldenReport verify(const VerifyArguments& arguments) {
  const model::GoldenFile file = model::GoldenFile::open(arguments.golden);
  const bool forward_outputs = model::holds_forward_outputs(file);
  HYDRA_REQUIRE(forward_outputs || file.contains("input_ids"), arguments.golden,
                ": found neither <name>.input_ids nor input_ids, expected the reference outputs of a model or a hybrid "
                "case");
  HYDRA_REQUIRE(forward_outputs || !arguments.teacher.empty(), arguments.golden,
                ": it is a hybrid case, which needs --teacher DIR as well");
  model::LoadOptions options = model::inference_options(arguments.device, arguments.precision);
  if (options.compute_type == at::kBFloat16) {
    options.parameter_type = at::kFloat;  // masters as in training: gradients are compared too
  }
  model::Model checked = model::load_model(arguments.model, options);
  std::printf("%s against %s, %s on %s\n", arguments.model.c_str(), arguments.golden.c_str(),
              arguments.precision.c_str(), arguments.device.c_str());
  if (forward_outputs) {
    return model::check_forward_outputs(checked, file);
  }
  model::Model teacher = model::load_model(arguments.teacher, options);
  return train::check_hybrid_case(checked, teacher, file);
}

}  // namespace

void add_verify(CLI::App& app, int& exit_status) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = app.add_subcommand("verify", "compare a model with a file of reference outputs");
  verb->add_option("--model", arguments->model, "teacher or hybrid directory")->required();
  verb->add_option("--teacher", arguments->teacher, "teacher directory, for a hybrid case");
  verb->add_option("--golden", arguments->golden, "safetensors file of reference outputs")->required();
  verb->add_option("--device", arguments->device, "cpu or cuda")->capture_default_str();
  verb->add_option("--precision", arguments->precision, "fp32, bf16 (fp32 masters) or fp64")->capture_default_str();
  verb->callback([arguments, &exit_status] {
    const model::GoldenReport report = verify(*arguments);
    print(report);
    exit_status = report.passed() ? 0 : 1;
  });
}

}  // namespace hydra::tools
