#pragma once
// Splits text by the regular expression of a tokenizer.json (behaviour "Isolated": matches and what stands between them
// are pieces), run by PCRE2 with Unicode properties and JIT. The reference runs Oniguruma; constructs on which the two
// differ are rewritten (\s, \S) or refused.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "hydrahead/base/expected.hpp"

namespace hydra::text {

// The pattern for PCRE2: \s and \S written out as Unicode White_Space. Refuses what the engines read differently.
Expected<std::string> translate_pattern(std::string_view pattern);

class RegexSplitter {
 public:
  // What one thread needs to match: made once, used for any number of texts.
  class Scratch {
   public:
    explicit Scratch(const RegexSplitter& splitter);
    Scratch(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class RegexSplitter;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  static Expected<RegexSplitter> compile(std::string_view pattern);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Calls piece(std::string_view) for the parts of `text` (well-formed UTF-8) in order; together they are the text.
  template <class Piece>
  void split(std::string_view text, Scratch& scratch, Piece&& piece) const {
    std::size_t done = 0;    // text[0, done) was handed out
    std::size_t search = 0;  // where the next match may start
    while (search < text.size()) {
      const Match match = find(text, search, scratch);
      if (!match.found) {
        break;
      }
      if (match.begin > done) {
        piece(text.substr(done, match.begin - done));
        done = match.begin;
      }
      if (match.end > match.begin) {
        piece(text.substr(match.begin, match.end - match.begin));
        done = search = match.end;
      } else {  // an empty match is no piece; go on behind the next character
        search = match.end;
        do {
          ++search;
        } while (search < text.size() && (static_cast<unsigned char>(text[search]) & 0xC0) == 0x80);
      }
    }
    if (done < text.size()) {
      piece(text.substr(done));
    }
  }

 private:
  struct Match {
    bool found;
    std::size_t begin, end;
  };
  struct Impl;
  explicit RegexSplitter(std::unique_ptr<Impl> impl);
  Match find(std::string_view text, std::size_t from, Scratch& scratch) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace hydra::text
