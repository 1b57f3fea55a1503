#pragma once
// Any bytes as a model's config.json: refused with a message that names the file, or read to a configuration that is
// written and read back unchanged, hybrids with their plan.

#include <span>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/json.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/model/head_plan.hpp"
#include "hydrahead/model/hybrid_config.hpp"
#include "hydrahead/model/qwen3_config.hpp"

namespace hydra::fuzz {

inline Json read_and_write_config(const Json& source) {
  const model::Qwen3Config config = model::read_qwen3_config(source, nullptr, "/fuzz/config.json");
  Json written = model::write_qwen3_config(config);
  if (source.contains("fa_heads")) {
    model::write_plan_json(written, model::read_plan_json(source, config, "/fuzz/config.json"));
    written.update(model::write_hybrid_json(model::read_hybrid_json(source, "/fuzz/config.json")));
  }
  return written;
}

inline int fuzz_model_config(std::span<const std::byte> bytes) {
  set_log_level(LogLevel::error);
  const auto source = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!source) {
    return 0;
  }
  Json written;
  try {
    written = read_and_write_config(*source);
  } catch (const UserError& error) {
    HYDRA_CHECK(std::string_view(error.what()).find("/fuzz/config.json") != std::string_view::npos, error.what());
    return 0;
  }
  HYDRA_CHECK(read_and_write_config(written) == written, written.dump());
  return 0;
}

}  // namespace hydra::fuzz
