#pragma once
// The nearest valid name to a mistyped one: the restricted Damerau-Levenshtein distance (insert, delete, replace, swap
// of neighbours), blind to case and to - against _.

#include <string>
#include <string_view>
#include <vector>

namespace hydra::config {

std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `names` if it is near enough (a third of its letters, at least one), else "".
std::string nearest_name(std::string_view wrong, const std::vector<std::string>& names);

}  // namespace hydra::config
