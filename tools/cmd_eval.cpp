// hydrahead eval: the long-context tasks and perplexity of a model directory; what the subcommands share.

#include <torch/version.h>

#include "eval_options.hpp"
#include "gdn_kernel_option.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/dist/launch_env.hpp"
#include "hydrahead/eval/evaluate.hpp"
#include "hydrahead/model/device.hpp"
#include "hydrahead/train/device_info.hpp"
#include "hydrahead/train/rank_agreement.hpp"
#include "verbs.hpp"
#include "version.hpp"

namespace hydra::tools {
namespace {

std::string word_of(train::DeviceChoice device) {
  switch (device) {
    case train::DeviceChoice::automatic: return "auto";
    case train::DeviceChoice::cpu: return "cpu";
    case train::DeviceChoice::cuda: return "cuda";
  }
  HYDRA_CHECK(false, "unknown device");
}

std::string word_of(train::Precision precision) {
  switch (precision) {
    case train::Precision::automatic: return "auto";
    case train::Precision::fp32: return "fp32";
    case train::Precision::bf16: return "bf16";
  }
  HYDRA_CHECK(false, "unknown precision");
}

}  // namespace

void add_eval_options(CLI::App& verb, EvalOptions& options) {
  verb.add_option("--model", options.model, "Teacher or hybrid directory")->required();
  verb.add_option("--out", options.out, "Directory for the results")->required();
  verb.add_option("--config", options.config, "YAML file; its section eval gives the defaults");
  verb.add_option("--set", options.overrides, "key=value, over the file");
  verb.add_option("--device", options.device, "auto | cpu | cuda");
  verb.add_option("--precision", options.precision, "auto | fp32 | bf16 | fp64");
  add_gdn_kernel_option(verb);
}

void add_key_option(CLI::App& verb, EvalOptions& options, const std::string& flag, const std::string& key, bool list,
                    const std::string& help) {
  verb.add_option_function<std::string>(
      flag,
      [&options, key, list](const std::string& value) {
        options.overrides.push_back(detail::concat("eval.", key, "=", list ? "[" + value + "]" : value));
      },
      help);
}

EvalTarget open_eval_target(const EvalOptions& options) {
  train::RunConfig config = train::read_run_config(options.config, options.overrides);
  const dist::LaunchEnv env = dist::read_launch_env();
  io::HfModelDir dir = io::HfModelDir::open(options.model);
  model::ModelConfig model_config = model::read_model_config(dir);
  model::match_tensors(dir, model_config);
  model::LoadOptions load =
      model::inference_options(options.device.empty() ? word_of(config.device) : options.device,
                               options.precision.empty() ? word_of(config.precision) : options.precision);
  if (load.device.is_cuda()) {
    load.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(dist::device_index(env)));
  }
  Json identity = {{"model_sha256", dir.sha256()},
                   {"precision", eval::precision_name(load.compute_type)},
                   {"state_dtype", config.cache.state_dtype == model::StateType::fp32 ? "fp32" : "bf16"}};
  Json run_info = {{"model", std::filesystem::absolute(options.model).string()},
                   {"version", version_text()},
                   {"torch", TORCH_VERSION},
                   {"device", train::device_info(load.device).name}};
  auto communicator = dist::make_communicator(env, load.device, static_cast<int>(config.parallel.timeout));
  train::require_same_job(*communicator, config);
  dist::require_same_on_all_ranks(*communicator, "the model or its precision", identity.dump());
  return {.config = std::move(config),
          .communicator = std::move(communicator),
          .dir = std::move(dir),
          .model_config = std::move(model_config),
          .load = load,
          .identity = std::move(identity),
          .run_info = std::move(run_info)};
}

void add_eval(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("eval", "Long-context tasks and perplexity by position");
  verb->require_subcommand(1);
  add_eval_niah(*verb);
  add_eval_ppl(*verb);
  for (const char* name : {"ruler", "choice"}) {
    auto* refused = verb->add_subcommand(name, "Not in this build: it has `eval niah` and `eval ppl`");
    refused->allow_extras();
    refused->callback([name] {
      fail_request("eval ", name,
                   ": not in this build, which has `eval niah` (RULER's eight needle tasks) and `eval ppl` ",
                   "(perplexity by position)");
    });
  }
}

}  // namespace hydra::tools
