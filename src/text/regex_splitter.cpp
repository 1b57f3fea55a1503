#include "hydrahead/text/regex_splitter.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <utility>

#include "hydrahead/base/error.hpp"
#include "hydrahead/text/unicode.hpp"

namespace hydra::text {
namespace {

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

std::string unicode_versions() {
  std::array<char, 32> letters{};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, letters.data());
  return detail::concat("letters ", letters.data(), " (PCRE2), normalization ", utf8proc_unicode_version(),
                        " (utf8proc)");
}

struct RegexSplitter::Impl {
  Owned<pcre2_code> code;
  bool jit = false;
};

struct RegexSplitter::Scratch::Impl {
  Owned<pcre2_match_context> context;
  Owned<pcre2_jit_stack> stack;
  Owned<pcre2_match_data> data;
};

RegexSplitter::Scratch::Scratch(const RegexSplitter& splitter) : impl_(std::make_unique<Impl>()) {
  impl_->context.reset(pcre2_match_context_create(nullptr));
  impl_->stack.reset(pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr));
  impl_->data.reset(pcre2_match_data_create_from_pattern(splitter.impl_->code.get(), nullptr));
  HYDRA_CHECK(impl_->context && impl_->stack && impl_->data, "PCRE2: out of memory");
  // A run of 20 million spaces exceeds the default limits; the patterns are linear, so none is needed.
  pcre2_set_match_limit(impl_->context.get(), UINT32_MAX);
  pcre2_set_depth_limit(impl_->context.get(), UINT32_MAX);
  pcre2_jit_stack_assign(impl_->context.get(), nullptr, impl_->stack.get());
}

RegexSplitter::Scratch::Scratch(Scratch&&) noexcept = default;
RegexSplitter::Scratch::~Scratch() = default;

RegexSplitter::RegexSplitter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Expected<RegexSplitter> RegexSplitter::compile(std::string_view pattern) {
  Expected<std::string> translated = translate_pattern(pattern);
  if (!translated) {
    return ParseError{translated.error()};
  }
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  HYDRA_CHECK(context, "PCRE2: out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get()));
  if (!impl->code) {
    return ParseError{"the pattern does not compile: " + message_of(error) + " at offset " + std::to_string(offset) +
                      " of " + *translated};
  }
  impl->jit = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE) == 0;  // without JIT the interpreter runs
  return RegexSplitter(std::move(impl));
}

RegexSplitter::Match RegexSplitter::find(std::string_view text, std::size_t from, Scratch& scratch) const {
  const Scratch::Impl& use = *scratch.impl_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int code = PCRE2_ERROR_JIT_STACKLIMIT;
  if (impl_->jit) {
    code = pcre2_jit_match(impl_->code.get(), subject, text.size(), from, 0, use.data.get(), use.context.get());
  }
  if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
    // The text is known to be well-formed; checking it again at every match would be quadratic.
    code = pcre2_match(impl_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, use.data.get(),
                       use.context.get());
  }
  if (code == PCRE2_ERROR_NOMATCH) {
    return {false, 0, 0};
  }
  HYDRA_CHECK(code > 0, "PCRE2: ", message_of(code), " (", code, ") at byte ", from, " of a text of ", text.size());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(use.data.get());
  HYDRA_CHECK(bounds[0] >= from && bounds[1] >= bounds[0], "PCRE2: a match outside its range");
  return {true, bounds[0], bounds[1]};
}

}  // namespace hydra::text
