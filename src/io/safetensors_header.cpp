#include "hydrahead/io/safetensors_header.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace hydra::io {
namespace {

constexpr std::pair<std::string_view, std::uint64_t> element_sizes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}, {"C64", 8}};

using Value = nlohmann::json;

template <class... Args>
ParseError error(const Args&... args) {
  return ParseError{detail::concat(args...)};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

// shape x element size; nothing when it does not fit into 63 bits.
std::optional<std::uint64_t> byte_count(const TensorInfo& info) {
  std::uint64_t bytes = element_bytes(info.dtype);
  if (std::find(info.shape.begin(), info.shape.end(), 0) != info.shape.end()) {
    return 0;
  }
  for (const std::int64_t extent : info.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes <= std::numeric_limits<std::int64_t>::max() ? std::optional(bytes) : std::nullopt;
}

Expected<TensorInfo> read_tensor(const std::string& name, const Value& entry) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return error("tensor ", name, ": expected an object of dtype, shape and data_offsets");
  }
  TensorInfo info;
  const Value &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string() || element_bytes(dtype.get_ref<const std::string&>()) == 0) {
    return error("tensor ", name, ": unknown dtype ", dtype.dump(-1, ' ', true));
  }
  info.dtype = dtype.get<std::string>();
  const auto is_extent = [](const Value& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  };
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), is_extent)) {
    return error("tensor ", name, ": shape is no list of sizes");
  }
  info.shape = shape.get<std::vector<std::int64_t>>();
  if (!offsets.is_array() || offsets.size() != 2 || !is_extent(offsets[0]) || !is_extent(offsets[1])) {
    return error("tensor ", name, ": data_offsets is no pair of offsets");
  }
  info.begin = offsets[0].get<std::uint64_t>();
  info.end = offsets[1].get<std::uint64_t>();
  const auto bytes = byte_count(info);
  if (!bytes || info.end < info.begin || info.end - info.begin != *bytes) {
    return error("tensor ", name, ": data_offsets [", info.begin, ", ", info.end, "] do not match shape ",
                 shape_text(info.shape), " of ", info.dtype, ", which needs ",
                 bytes ? std::to_string(*bytes) : std::string("more than 2^63"), " bytes");
  }
  return info;
}

// Runs the JSON parser for its callbacks; bytes that are no JSON become `problem` unless there is one already.
void run_parser(std::string_view text, const Value::parser_callback_t& watch, std::optional<ParseError>& problem) {
  try {
    const Value kept = Value::parse(text.begin(), text.end(), watch);
  } catch (const Value::exception& failure) {
    if (!problem) {
      problem = error("not valid JSON: ", failure.what());
    }
  }
}

// Reads the header object entry by entry: each is checked and dropped when it ends, so that a large header never
// becomes a tree in memory.
std::optional<ParseError> read_entries(std::string_view text, SafetensorsHeader& header) {
  std::optional<ParseError> problem;
  std::string name;
  bool has_metadata = false;
  std::set<std::string> entry_keys;
  const auto watch = [&](int depth, Value::parse_event_t event, Value& value) {
    using Event = Value::parse_event_t;
    if (problem || depth > 3) {
      if (!problem) {
        problem = error("tensor ", name, ": nested too deeply");
      }
      return false;
    }
    if (event == Event::key && depth == 1) {
      name = value.get<std::string>();
      if (header.tensors.count(name) > 0 || (name == "__metadata__" && has_metadata)) {
        problem = error("duplicate name ", name);
      }
      entry_keys.clear();
    } else if (event == Event::key && depth == 2 && !entry_keys.insert(value.get<std::string>()).second) {
      problem = error(name, ": duplicate key ", value.get<std::string>());
    } else if (event == Event::object_end && depth == 1 && name == "__metadata__") {
      has_metadata = true;
      for (const auto& [key, content] : value.items()) {
        if (!content.is_string()) {
          problem = error("__metadata__: ", key, " is no string");
          break;
        }
        header.metadata[key] = content.get<std::string>();
      }
      return false;
    } else if (event == Event::object_end && depth == 1) {
      auto info = read_tensor(name, value);
      if (info) {
        header.tensors.emplace(name, std::move(*info));
      } else {
        problem = ParseError{info.error()};
      }
      return false;
    } else if (depth == 1 && (event == Event::value || event == Event::array_start)) {
      problem = error(name, ": expected an object");
    }
    return true;
  };
  run_parser(text, watch, problem);
  return problem;
}

// The ranges, sorted, must cover [0, data_bytes) exactly once.
std::optional<ParseError> check_ranges(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  using Entry = std::pair<const std::string, TensorInfo>;
  std::vector<const Entry*> order;
  for (const Entry& entry : header.tensors) {
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t covered = 0;
  const Entry* previous = nullptr;
  for (const Entry* entry : order) {
    if (entry->second.begin < covered) {
      return error("tensors ", previous->first, " and ", entry->first, " overlap at byte ", entry->second.begin);
    }
    if (entry->second.begin > covered) {
      return error("hole: bytes ", covered, " to ", entry->second.begin, " before tensor ", entry->first,
                   " belong to no tensor");
    }
    covered = entry->second.end;
    previous = entry;
  }
  if (covered > data_bytes) {
    return error("incomplete file: ", header.data_start + covered, " bytes expected, ", header.data_start + data_bytes,
                 " present");
  }
  if (covered < data_bytes) {
    return error("the last ", data_bytes - covered,
                 " bytes are not covered by any tensor: ", header.data_start + covered, " bytes expected, ",
                 header.data_start + data_bytes, " present");
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t element_bytes(std::string_view dtype) {
  const auto* found = std::find_if(std::begin(element_sizes), std::end(element_sizes),
                                   [&](const auto& entry) { return entry.first == dtype; });
  return found == std::end(element_sizes) ? 0 : found->second;
}

Expected<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    return error("a Git LFS pointer file, not the weights (`git lfs pull` fetches them)");
  }
  if (text.size() < 8) {
    return error("incomplete file: at least 8 bytes expected for the header length, ", text.size(), " present");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text[i]);
  }
  if (length > text.size() - 8) {
    return error("header length ", length, " exceeds the ", text.size() - 8, " bytes that follow it");
  }
  if (length < 2 || length > max_header_bytes) {
    return error("header length ", length, ", expected 2 to ", max_header_bytes);
  }
  SafetensorsHeader header;
  header.data_start = 8 + length;
  const std::string_view json = text.substr(8, static_cast<std::size_t>(length));
  if (json.front() != '{') {
    return error("the header does not start with '{'");
  }
  auto problem = read_entries(json, header);
  if (!problem) {
    problem = check_ranges(header, text.size() - header.data_start);
  }
  if (problem) {
    return *problem;
  }
  return header;
}

Expected<std::map<std::string, std::string>> parse_safetensors_index(std::string_view text) {
  std::map<std::string, std::string> weight_map;
  std::optional<ParseError> problem;
  std::set<std::string> top_keys;
  bool in_map = false, found = false;
  std::string key;
  const auto watch = [&](int depth, Value::parse_event_t event, Value& value) {
    using Event = Value::parse_event_t;
    if (problem || depth > 64) {
      if (!problem) {
        problem = error("nested too deeply");
      }
      return false;
    }
    if (event == Event::key && depth == 1) {
      key = value.get<std::string>();
      in_map = key == "weight_map";
      if (!top_keys.insert(key).second) {
        problem = error("duplicate key ", key);
      }
    } else if (event == Event::object_end && depth == 1 && in_map) {
      found = true;
    } else if (event == Event::key && depth == 2 && in_map) {
      key = value.get<std::string>();
    } else if (event == Event::value && depth == 2 && in_map && value.is_string()) {
      const std::string& file = value.get_ref<const std::string&>();
      if (file.empty() || file.find_first_of("/\\") != std::string::npos || file == "." || file == "..") {
        problem = error("weight_map: ", key, ": \"", file, "\" is no plain file name");
      } else if (!weight_map.emplace(key, file).second) {
        problem = error("weight_map: duplicate name ", key);
      }
      return false;
    } else if (in_map && depth == 2 && (event != Event::key)) {
      problem = error("weight_map: ", key, ": expected a file name");
    }
    return true;
  };
  run_parser(text, watch, problem);
  if (problem) {
    return *problem;
  }
  if (!found || weight_map.empty()) {
    return error("weight_map: found none, expected an object of tensor names and files");
  }
  return weight_map;
}

}  // namespace hydra::io
