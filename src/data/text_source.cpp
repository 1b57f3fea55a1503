#include "text_source.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/log.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/data/corpora.hpp"
#include "hydrahead/data/jsonl_ingest.hpp"

namespace hydra::data {
namespace {

// Held while a cache entry is made: ranks of one host tokenize once.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    HYDRA_REQUIRE(descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) == 0, path.string(),
                  ": cannot be locked; expected a writable cache folder (XDG_CACHE_HOME names another)");
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::close(descriptor_); }

 private:
  int descriptor_;
};

fs::path with_suffix(fs::path prefix, const char* suffix) {
  prefix += suffix;
  return prefix;
}

bool is_text_file(const fs::path& path) {
  try {
    format_of(path, TextFormat::by_name);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Tokenizes `files` into one token file in the cache, if it is not there yet.
TokenFile cached_tokens(const std::string& name, const std::vector<fs::path>& files, const std::string& text_key,
                        const text::Tokenizer& tokenizer, text::TokenId end_token) {
  Sha256 key;
  key.update(detail::concat("1 ", tokenizer.sha256(), " ", end_token, " ", text_key, "\n"));
  for (const fs::path& file : files) {
    const bool plain = format_of(file, TextFormat::by_name) == TextFormat::plain;
    key.update(sha256_of_file(file) + (plain ? " plain\n" : " jsonl\n"));
  }
  const fs::path folder = cache_dir() / "tokens";
  fs::create_directories(folder);
  const fs::path prefix = folder / key.hex().substr(0, 32);
  const FileLock lock(with_suffix(prefix, ".lock"));
  if (!fs::exists(with_suffix(prefix, ".idx"))) {  // written last
    fs::remove(with_suffix(prefix, ".bin"));
    fs::remove(with_suffix(prefix, ".json"));
    IngestOptions options;
    options.field = text_key;
    options.end_token = end_token;
    const IngestReport report = ingest(files, tokenizer, prefix, options);
    log_info(name, ": tokenized ", report.kept, " of ", report.lines, " texts into ", report.tokens,
             " tokens: ", prefix.string());
    for (const auto& [reason, skipped] : report.skipped) {
      log_warning(name, ": skipped ", skipped.count, " texts (", reason, "), the first at ", skipped.first.front());
    }
  }
  return TokenFile::open(prefix);
}

}  // namespace

std::vector<TokenFile> open_token_files(const std::string& name, const fs::path& path, const std::string& text_key,
                                        const text::Tokenizer& tokenizer, text::TokenId end_token,
                                        std::int64_t vocab_size) {
  std::vector<TokenFile> files;
  std::vector<fs::path> texts;
  if (fs::is_directory(path)) {
    std::vector<fs::path> entries(fs::directory_iterator(path), fs::directory_iterator{});
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) {
      if (entry.extension() == ".idx") {
        files.push_back(TokenFile::open(fs::path(entry).replace_extension()));
      } else if (fs::is_regular_file(entry) && is_text_file(entry) &&
                 !fs::exists(fs::path(entry).replace_extension(".idx"))) {
        texts.push_back(entry);
      }
    }
    HYDRA_REQUIRE(!files.empty() || !texts.empty(), name, ": ", path.string(), ": found ", entries.size(),
                  " entries but no .idx and no text file (.jsonl, .txt, ...)");
  } else if (fs::is_regular_file(path)) {
    texts.push_back(path);
  } else {
    HYDRA_REQUIRE(fs::exists(with_suffix(path, ".idx")), name, ": ", path.string(),
                  ": found neither a text file, nor a folder, nor a .bin/.idx pair with this prefix");
    files.push_back(TokenFile::open(path));
  }
  if (!texts.empty()) {
    files.push_back(cached_tokens(name, texts, text_key, tokenizer, end_token));
  }
  for (TokenFile& file : files) {
    if (file.tokenizer_sha256()) {
      HYDRA_REQUIRE(*file.tokenizer_sha256() == tokenizer.sha256(), name, ": ", file.prefix().string(),
                    ".json: was made with the tokenizer of sha256 ", *file.tokenizer_sha256(), "; the model's is ",
                    tokenizer.sha256());
    } else {
      log_warning(name, ": ", file.prefix().string(),
                  " does not say which tokenizer made it; ids are checked for their range only");
    }
    file.require_ids_below(vocab_size);
  }
  return files;
}

}  // namespace hydra::data
