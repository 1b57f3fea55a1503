#pragma once
// JSON through nlohmann-json: strict parsing (no duplicate keys, bounded depth) and strict writing (no NaN).

#include <nlohmann/json.hpp>
#include <string_view>

#include "hydrahead/base/expected.hpp"

namespace hydra {

// Objects keep the order of their keys, as config.json readers expect.
using Json = nlohmann::ordered_json;

// Refuses duplicate keys, invalid UTF-8, trailing text and nesting deeper than 128.
Expected<Json> parse_json(std::string_view text);

// parse_json of a file; a UserError names the path.
Json read_json_file(const std::string& path);

// A finite number, or null: NaN and infinities are no JSON.
Json json_number(double value);

}  // namespace hydra
