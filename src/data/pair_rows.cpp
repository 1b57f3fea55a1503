// Counterfactual pairs of the user's own, from JSONL.

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/json.hpp"
#include "pair_tokens.hpp"

namespace hydra::data {
namespace {

constexpr std::size_t most_name_bytes = 100;
constexpr std::array<const char*, 4> text_keys = {"clean", "corrupt", "answer+", "answer-"};

void require_keys(const Json& row, const std::string& where) {
  HYDRA_REQUIRE(row.is_object(), where, ": found ", row.type_name(), ", expected an object");
  for (const char* key : text_keys) {
    HYDRA_REQUIRE(row.contains(key) && row[key].is_string() && !row[key].get<std::string>().empty(), where, ": ", key,
                  ": found ", row.contains(key) ? row[key].dump() : "nothing", ", expected text");
  }
  for (const auto& [key, value] : row.items()) {
    const bool known = key == "probe" || std::find(text_keys.begin(), text_keys.end(), key) != text_keys.end();
    HYDRA_REQUIRE(known, where, ": found the key ", key, ", expected clean, corrupt, answer+, answer- and probe");
    HYDRA_REQUIRE(value.is_string(), where, ": ", key, ": found ", value.dump(), ", expected text");
  }
}

// It names files of results and a row of tables.
void require_probe_name(const std::string& name, const std::string& where) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '|' || static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
  HYDRA_REQUIRE(!name.empty() && name.size() <= most_name_bytes && printable, where, ": probe: found '", name,
                "', expected a name of 1 to ", most_name_bytes, " bytes without control characters, / and |");
}

}  // namespace

std::vector<CounterfactualPair> read_pairs(const fs::path& file, const text::Tokenizer& tokenizer) {
  std::istringstream lines(read_file(file));
  std::map<std::string, std::vector<CounterfactualPair>> by_probe;
  std::vector<std::string> order;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const std::string where = detail::concat(file.string(), ":", number);
    const Json row = parse_json(line).value_or_fail(where);
    require_keys(row, where);
    const auto text = [&](const char* key) { return row[key].get<std::string>(); };
    CounterfactualPair pair =
        tokenize_pair({text("clean"), text("corrupt"), text("answer+"), text("answer-")}, tokenizer)
            .value_or_fail(where);
    pair.probe = row.contains("probe") ? text("probe") : file.stem().string();
    require_probe_name(pair.probe, where);
    pair.capability = "general";
    std::vector<CounterfactualPair>& probe = by_probe[pair.probe];
    if (probe.empty()) {
      order.push_back(pair.probe);
    }
    pair.id = detail::concat("rows-", pair.probe, "/", probe.size());
    probe.push_back(std::move(pair));
  }
  HYDRA_REQUIRE(!order.empty(), file.string(), ": found no rows, expected at least one pair");
  std::vector<CounterfactualPair> pairs;
  for (const std::string& name : order) {  // the pairs of a probe together
    pairs.insert(pairs.end(), by_probe[name].begin(), by_probe[name].end());
  }
  return pairs;
}

}  // namespace hydra::data
