#include "hydrahead/eval/record_store.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "hydrahead/base/files.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::eval {
namespace {

constexpr std::string_view merged_name = "samples.jsonl";

Json header_of(const Json& settings) {
  return {{"format", "hydrahead samples 1"}, {"fingerprint", sha256_hex(settings.dump())}, {"settings", settings}};
}

struct RecordFile {
  std::vector<SampleRecord> records;
  bool torn = false;  // the last line was cut by a kill
};

RecordFile read_record_file(const fs::path& path, const Json& settings) {
  const std::string text = read_file(path);
  RecordFile file;
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      file.torn = true;
      break;
    }
    const std::string where = path.string() + " line " + std::to_string(line);
    const Json json = parse_json(std::string_view(text).substr(begin, end - begin)).value_or_fail(where);
    begin = end + 1;
    if (line == 1) {
      HYDRA_REQUIRE(json.is_object() && json.contains("settings") && json["settings"].is_object(), where,
                    ": found no header, expected an object with \"settings\"");
      require_same_settings(json["settings"], settings, path);
    } else {
      file.records.push_back(record_from_json(json).value_or_fail(where));
    }
  }
  return file;
}

std::vector<fs::path> rank_files(const fs::path& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("samples.rank") && name.ends_with(".jsonl")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Length, then task, then index: the order in which a run on one rank works.
std::vector<const SampleRecord*> in_order(const std::map<std::string, SampleRecord>& records) {
  std::vector<const SampleRecord*> order;
  for (const auto& [id, record] : records) {
    order.push_back(&record);
  }
  std::sort(order.begin(), order.end(), [](const SampleRecord* a, const SampleRecord* b) {
    return std::tie(a->length, a->task, a->index) < std::tie(b->length, b->task, b->index);
  });
  return order;
}

// All records in `dir`; rank 0 merges the ranks' files and leaves out a torn line, if there is one.
std::map<std::string, SampleRecord> load_records(const fs::path& dir, const Json& settings,
                                                 dist::Communicator& communicator) {
  const fs::path merged = dir / merged_name;
  std::vector<fs::path> parts = rank_files(dir);
  HYDRA_REQUIRE(fs::exists(merged) || !parts.empty() || fs::is_empty(dir), dir.string(), ": holds files but no ",
                merged_name, " of an evaluation; expected a new or empty directory");
  bool rewrite = !parts.empty() || !fs::exists(merged);
  if (fs::exists(merged)) {
    parts.insert(parts.begin(), merged);
  }
  std::map<std::string, SampleRecord> records;
  for (const fs::path& part : parts) {
    RecordFile file = read_record_file(part, settings);
    rewrite = rewrite || file.torn || fs::file_size(part) == 0;
    for (SampleRecord& record : file.records) {
      std::string id = record.id;
      records.try_emplace(std::move(id), std::move(record));
    }
  }
  communicator.barrier();  // every rank has read before rank 0 writes
  if (communicator.rank() == 0 && rewrite) {
    std::string text = header_of(settings).dump() + "\n";
    for (const SampleRecord* record : in_order(records)) {
      text += to_json(*record).dump() + "\n";
    }
    write_file_atomic(merged, text);
    for (const fs::path& part : rank_files(dir)) {
      fs::remove(part);
    }
  }
  communicator.barrier();
  return records;
}

}  // namespace

void require_same_settings(const Json& found, const Json& expected, const fs::path& file) {
  std::string differences;
  const auto add = [&](const std::string& key, const std::string& was, const std::string& now) {
    differences.append("\n  ").append(key).append(": found ").append(was).append(", expected ").append(now);
  };
  for (const auto& [key, value] : expected.items()) {
    if (!found.contains(key)) {
      add(key, "nothing", value.dump());
    } else if (found.at(key) != value) {
      add(key, found.at(key).dump(), value.dump());
    }
  }
  for (const auto& [key, value] : found.items()) {
    if (!expected.contains(key)) {
      add(key, value.dump(), "nothing");
    }
  }
  HYDRA_REQUIRE(differences.empty(), file.string(),
                ": holds an evaluation with other settings; use the same ones, or another --out:", differences);
}

RecordStore::RecordStore(fs::path dir, Json settings, dist::Communicator& communicator)
    : dir_(std::move(dir)),
      settings_(std::move(settings)),
      communicator_(communicator),
      new_dir_(!fs::exists(dir_)),
      claim_(dist::claim_for_job(communicator_, dir_)),
      done_(load_records(dir_, settings_, communicator_)),
      empty_(done_.empty()) {
  const bool alone = communicator_.size() == 1;
  own_path_ =
      dir_ / (alone ? std::string(merged_name) : "samples.rank" + std::to_string(communicator_.rank()) + ".jsonl");
  own_file_.open(own_path_, alone ? std::ios::app : std::ios::trunc);
  if (!alone) {
    own_file_ << header_of(settings_).dump() << '\n' << std::flush;
  }
  HYDRA_REQUIRE(own_file_.is_open(), own_path_.string(), ": cannot be written");
}

RecordStore::~RecordStore() {
  if (empty_) {
    std::error_code ignored;
    fs::remove(own_path_, ignored);
    if (communicator_.rank() == 0) {
      fs::remove(dir_ / merged_name, ignored);
    }
    if (new_dir_) {
      fs::remove(dir_, ignored);  // the last rank to come here finds it empty
    }
  }
}

void RecordStore::append(const SampleRecord& record) {
  empty_ = false;
  own_file_ << to_json(record).dump() << '\n' << std::flush;
  if (!own_file_) {
    throw Error(own_path_.string() + ": writing failed");
  }
}

std::map<std::string, SampleRecord> RecordStore::finish() {
  own_file_.close();
  empty_ = false;
  communicator_.barrier();
  return load_records(dir_, settings_, communicator_);
}

}  // namespace hydra::eval
