#pragma once
// A file of JSON objects, one a line, each flushed when it is written: the record of a run (metrics.jsonl).

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "hydrahead/base/json.hpp"

namespace hydra::metrics {

class JsonlSink {
 public:
  // Opens `path` for appending and first drops every line whose "step" is greater than `last_step`, and a torn last
  // line: what a resumed run will write again. last_step < 0 empties the file.
  JsonlSink(const std::filesystem::path& path, std::int64_t last_step);

  // Strict JSON: a number that is not finite becomes null and its name joins the list "not_finite".
  void write(const Json& object);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// `object` with non-finite numbers as null and their names (dotted paths) in "not_finite"; as given if all are finite.
Json strict_json(Json object);

}  // namespace hydra::metrics
