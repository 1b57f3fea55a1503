#pragma once
// --gdn-kernel: the path of the gated delta rule on CUDA, for verbs that run a model.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "hydrahead/ops/gated_delta.hpp"
#include "option_checks.hpp"

namespace hydra::tools {

inline constexpr const char* kGdnKernels[] = {"auto", "portable", "mma", "wgmma", "aten"};

inline std::optional<ops::GatedDeltaPath> gdn_kernel(const std::string& name) {
  using ops::GatedDeltaPath;
  for (const auto path : {GatedDeltaPath::aten, GatedDeltaPath::portable, GatedDeltaPath::mma, GatedDeltaPath::wgmma}) {
    if (name == ops::name_of(path)) {
      return path;
    }
  }
  return std::nullopt;
}

inline void add_gdn_kernel_option(CLI::App& verb) {
  verb.add_option_function<std::string>(
          "--gdn-kernel", [](const std::string& name) { ops::force_gated_delta_path(gdn_kernel(name)); },
          "Gated delta rule on CUDA: auto, portable, mma, wgmma or aten")
      ->check(one_of({std::begin(kGdnKernels), std::end(kGdnKernels)}));
}

}  // namespace hydra::tools
