#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). A draw is a pure function of (key, counter),
// so results do not depend on threads, ranks or order. No std:: distribution is used: their results are unspecified.

#include <array>
#include <cstdint>
#include <vector>

namespace hydra {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// One block of four 32-bit words.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// A stream of words: the key is the seed, counter = (block, a, b, c), block counting up from 0.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0);

  std::uint32_t next();                    // uniform 32-bit word
  std::uint32_t below(std::uint32_t n);    // uniform in [0, n), n >= 1; multiply-shift with rejection
  std::uint64_t below64(std::uint64_t n);  // the same for 64 bits
  double uniform();                        // [0, 1) with 53 bits
  double normal();                         // standard normal (Box-Muller)

  // Fisher-Yates: i = n-1..1, j = below(i+1).
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
    }
  }
  // k distinct values of [0, n) in random order (partial Fisher-Yates; memory O(k)).
  std::vector<std::uint32_t> sample(std::uint32_t n, std::uint32_t k);

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  unsigned used_ = 4;
};

}  // namespace hydra
