#include "hydrahead/base/random.hpp"

#include <cmath>
#include <numbers>
#include <unordered_map>

#include "hydrahead/base/error.hpp"

namespace hydra {

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::uint32_t a, std::uint32_t b, std::uint32_t c)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, counter_{0, a, b, c} {}

std::uint32_t RandomStream::next() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

std::uint32_t RandomStream::below(std::uint32_t n) {
  HYDRA_CHECK(n > 0, "below(0)");
  const std::uint32_t threshold = (0u - n) % n;  // 2^32 mod n: the low products that would bias the result
  while (true) {
    const std::uint64_t product = static_cast<std::uint64_t>(next()) * n;
    if (static_cast<std::uint32_t>(product) >= threshold) {
      return static_cast<std::uint32_t>(product >> 32);
    }
  }
}

std::uint64_t RandomStream::below64(std::uint64_t n) {
  HYDRA_CHECK(n > 0, "below64(0)");
  const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % n + 1) % n;  // largest multiple of n, minus 1
  while (true) {
    const std::uint64_t high = next();
    const std::uint64_t value = high << 32 | next();
    if (value <= limit) {
      return value % n;
    }
  }
}

double RandomStream::uniform() {
  const std::uint64_t high = next() >> 5, low = next() >> 6;
  return static_cast<double>(high * 67108864 + low) / 9007199254740992.0;
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::vector<std::uint32_t> RandomStream::sample(std::uint32_t n, std::uint32_t k) {
  HYDRA_CHECK(k <= n, "sample of ", k, " out of ", n);
  std::unordered_map<std::uint32_t, std::uint32_t> moved;  // positions whose value is no longer their index
  const auto value_at = [&](std::uint32_t i) {
    const auto found = moved.find(i);
    return found == moved.end() ? i : found->second;
  };
  std::vector<std::uint32_t> chosen;
  chosen.reserve(k);
  for (std::uint32_t i = 0; i < k; ++i) {
    const std::uint32_t j = i + below(n - i);
    chosen.push_back(value_at(j));
    moved[j] = value_at(i);
  }
  return chosen;
}

}  // namespace hydra
