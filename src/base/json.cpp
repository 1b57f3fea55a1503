#include "hydrahead/base/json.hpp"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "hydrahead/base/files.hpp"

namespace hydra {

Expected<Json> parse_json(std::string_view text) {
  constexpr int max_depth = 128;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string problem;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (!problem.empty()) {
      return false;
    }
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      problem = "duplicate key \"" + parsed.get<std::string>() + "\"";
    }
    if (depth > max_depth) {
      problem = "nesting is deeper than 128";
    }
    return problem.empty();
  };
  try {
    Json value = Json::parse(text.begin(), text.end(), watch);
    if (!problem.empty()) {
      return ParseError{problem};
    }
    return value;
  } catch (const Json::exception& error) {
    return ParseError{problem.empty() ? std::string("not valid JSON: ") + error.what() : problem};
  }
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path)).value_or_fail(path); }

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace hydra
