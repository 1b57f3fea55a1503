#include "hydrahead/text/tokenizer.hpp"

#include <mutex>
#include <unordered_set>
#include <utility>

#include "added_tokens.hpp"
#include "hydrahead/base/error.hpp"
#include "hydrahead/base/files.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/text/bpe.hpp"
#include "hydrahead/text/regex_splitter.hpp"
#include "hydrahead/text/tokenizer_json.hpp"
#include "hydrahead/text/unicode.hpp"
#include "piece_cache.hpp"

namespace hydra::text {
namespace {

// What one thread needs to encode. A tokenizer keeps those not in use, so that their caches stay warm.
struct EncodeState {
  std::vector<RegexSplitter::Scratch> splits;
  std::vector<std::string> normalized;  // a buffer for each normal form
  Bpe::Scratch bpe;
  PieceCache cache;
};

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  Bpe bpe;
  bool ignore_merges;
  std::vector<Normalizer> normalizers;
  std::vector<RegexSplitter> splitters;
  AddedTokenMatcher raw_tokens, normalized_tokens;
  std::unordered_set<TokenId> special;
  std::vector<TokenId> prefix, suffix;
  std::string sha256;

  mutable std::mutex mutex;  // of `idle`
  mutable std::vector<std::unique_ptr<EncodeState>> idle;

  explicit Impl(TokenizerSpec&& spec)
      : vocabulary(std::move(spec.vocabulary)),
        bpe(spec.byte_ids, spec.merges),
        ignore_merges(spec.ignore_merges),
        prefix(std::move(spec.prefix)),
        suffix(std::move(spec.suffix)) {
    for (const NormalForm form : spec.normal_forms) {
      normalizers.emplace_back(form);
    }
    for (const AddedToken& token : spec.added_tokens) {
      if (token.special) {
        special.insert(token.id);
      }
      if (token.normalized) {
        std::vector<std::string> buffers(normalizers.size());
        normalized_tokens.add(std::string(normalize(token.content, buffers)), token.id);
      } else {
        raw_tokens.add(token.content, token.id);
      }
    }
  }

  std::unique_ptr<EncodeState> take_state() const {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<EncodeState> state = std::move(idle.back());
        idle.pop_back();
        return state;
      }
    }
    auto state = std::make_unique<EncodeState>();
    for (const RegexSplitter& splitter : splitters) {
      state->splits.emplace_back(splitter);
    }
    state->normalized.resize(normalizers.size());
    return state;
  }

  void give_back(std::unique_ptr<EncodeState> state) const {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(state));
  }

  std::string_view normalize(std::string_view text, std::vector<std::string>& buffers) const {
    for (std::size_t i = 0; i < normalizers.size(); ++i) {
      text = normalizers[i].apply(text, buffers[i]);
    }
    return text;
  }

  void merge_piece(std::string_view piece, EncodeState& state, std::vector<TokenId>& out) const {
    if (ignore_merges) {
      if (const std::optional<TokenId> whole = vocabulary.find(piece)) {
        out.push_back(*whole);
        return;
      }
    }
    bpe.encode(piece, state.bpe, out);
  }

  void encode_piece(std::string_view piece, EncodeState& state, std::vector<TokenId>& out) const {
    if (piece.size() > PieceCache::max_bytes) {
      return merge_piece(piece, state, out);
    }
    const auto key = PieceCache::key_of(piece);
    PieceCache::Entry& entry = state.cache.slot(key);
    if (entry.holds(key)) {
      out.insert(out.end(), entry.tokens().begin(), entry.tokens().end());
      return;
    }
    const std::size_t before = out.size();
    merge_piece(piece, state, out);
    entry.store(key, std::span(out).subspan(before));
  }

  // Splits by the patterns from `step` on; each pattern sees the pieces of the one before as texts of their own.
  void split(std::string_view text, std::size_t step, EncodeState& state, std::vector<TokenId>& out) const {
    if (step == splitters.size()) {
      return encode_piece(text, state, out);
    }
    splitters[step].split(text, state.splits[step],
                          [&](std::string_view piece) { split(piece, step + 1, state, out); });
  }

  void encode(std::string_view text, bool parse_added_tokens, EncodeState& state, std::vector<TokenId>& out) const {
    const auto plain = [&](std::string_view part) { split(part, 0, state, out); };
    if (!parse_added_tokens) {
      return plain(normalize(text, state.normalized));
    }
    const auto token = [&](TokenId id) { out.push_back(id); };
    raw_tokens.cut(
        text, [&](std::string_view part) { normalized_tokens.cut(normalize(part, state.normalized), plain, token); },
        token);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Expected<Tokenizer> Tokenizer::parse(std::string_view json) {
  Expected<TokenizerSpec> spec = parse_tokenizer_json(json);
  if (!spec) {
    return ParseError{spec.error()};
  }
  std::vector<RegexSplitter> splitters;
  for (const std::string& pattern : spec->patterns) {
    Expected<RegexSplitter> splitter = RegexSplitter::compile(pattern);
    if (!splitter) {
      return ParseError{"pre_tokenizer: " + splitter.error()};
    }
    splitters.push_back(std::move(*splitter));
  }
  auto impl = std::make_unique<Impl>(std::move(*spec));
  impl->splitters = std::move(splitters);
  impl->sha256 = sha256_hex(json);
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::load(const std::filesystem::path& dir_or_file) {
  const fs::path path = fs::is_directory(dir_or_file) ? dir_or_file / "tokenizer.json" : dir_or_file;
  const MappedFile file = MappedFile::open(path);
  return parse(file.text()).value_or_fail(path.string());
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string clean;
  if (valid_prefix(text) != text.size()) {
    clean = replace_malformed(text);
    text = clean;
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.add_special_tokens) {
    ids.insert(ids.end(), impl_->prefix.begin(), impl_->prefix.end());
  }
  std::unique_ptr<EncodeState> state = impl_->take_state();
  impl_->encode(text, options.parse_added_tokens, *state, ids);
  impl_->give_back(std::move(state));
  if (options.add_special_tokens) {
    ids.insert(ids.end(), impl_->suffix.begin(), impl_->suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) {
      bytes += bytes_of(id);
    }
  }
  return replace_malformed(bytes);
}

std::string_view Tokenizer::bytes_of(TokenId id) const { return impl_->vocabulary.bytes_of(id); }

bool Tokenizer::is_special(TokenId id) const { return impl_->special.contains(id); }

std::optional<TokenId> Tokenizer::id_of(std::string_view token_content) const {
  if (const std::optional<TokenId> added = impl_->raw_tokens.find(token_content)) {
    return added;
  }
  if (const std::optional<TokenId> added = impl_->normalized_tokens.find(token_content)) {
    return added;
  }
  return impl_->vocabulary.find(token_content);
}

std::int64_t Tokenizer::id_limit() const { return impl_->vocabulary.limit(); }

const std::string& Tokenizer::sha256() const { return impl_->sha256; }

std::string StreamDecoder::push(TokenId id) {
  if (!skip_special_ || !tokenizer_.is_special(id)) {
    pending_ += tokenizer_.bytes_of(id);
  }
  const std::size_t complete = pending_.size() - incomplete_tail(pending_);
  std::string text = replace_malformed(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() { return replace_malformed(std::exchange(pending_, {})); }

}  // namespace hydra::text
