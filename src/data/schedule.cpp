#include "schedule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/random.hpp"

namespace hydra::data {
namespace {

constexpr std::uint32_t largest_block = 1000;
constexpr std::uint32_t order_domain =
    0x4d495831;  // streams of their own: see evaluation.md section 5 for those of samples

// Whole rows of each source among `rows`, by largest remainder, none below one.
std::vector<std::uint32_t> quotas_of(const std::vector<double>& shares, std::uint32_t rows) {
  std::vector<std::uint32_t> quotas;
  quotas.reserve(shares.size());
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), 0);
  for (const double share : shares) {
    quotas.push_back(std::max(1u, static_cast<std::uint32_t>(share * rows)));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return shares[a] * rows - quotas[a] > shares[b] * rows - quotas[b];
  });
  std::uint32_t given = std::accumulate(quotas.begin(), quotas.end(), 0u);
  for (std::size_t i = 0; given < rows; i = (i + 1) % order.size(), ++given) {
    ++quotas[order[i]];
  }
  for (; given > rows; --given) {  // sources that were raised to one row take it from the largest
    --*std::max_element(quotas.begin(), quotas.end());
  }
  return quotas;
}

}  // namespace

MixtureSchedule::MixtureSchedule(const std::vector<double>& weights, std::uint64_t seed) : seed_(seed) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  HYDRA_CHECK(total > 0 && weights.size() <= largest_block, weights.size(), " sources with a total weight of ", total);
  std::vector<double> shares;
  shares.reserve(weights.size());
  for (const double weight : weights) {
    shares.push_back(weight / total);
  }
  std::uint32_t rows = 1;
  const auto whole = [&](double share) {
    const double exact = share * rows;
    return std::round(exact) >= 1 && std::abs(exact - std::round(exact)) < 1e-6;
  };
  while (rows < largest_block && !std::all_of(shares.begin(), shares.end(), whole)) {
    ++rows;
  }
  if (std::all_of(shares.begin(), shares.end(), whole)) {
    for (const double share : shares) {
      quotas_.push_back(static_cast<std::uint32_t>(std::lround(share * rows)));
    }
  } else {
    quotas_ = quotas_of(shares, rows);
  }
  for (std::uint32_t source = 0; source < quotas_.size(); ++source) {
    block_.insert(block_.end(), quotas_[source], source);
  }
}

MixtureSchedule::Pick MixtureSchedule::pick(std::uint64_t row) const {
  const std::uint64_t block = row / block_.size();
  const auto place = static_cast<std::size_t>(row % block_.size());
  std::vector<std::uint32_t> order = block_;
  RandomStream(seed_, order_domain, static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32))
      .shuffle(order);
  const std::uint32_t source = order[place];
  const auto earlier =
      static_cast<std::uint64_t>(std::count(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(place), source));
  return {source, block * quotas_[source] + earlier};
}

std::uint64_t permuted(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  HYDRA_CHECK(index < n, "permuted(", index, ") of ", n);
  constexpr int rounds = 6;
  const int half =
      std::max(1, static_cast<int>(std::bit_width(n - 1) + 1) / 2);  // bits of a half: at most 4 n values in all
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const PhiloxCounter counter{static_cast<std::uint32_t>(right), 0x50455200 + round,
                                  static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
      const std::uint64_t mixed = left ^ (philox4x32(counter, key)[0] & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= n);
  return index;
}

}  // namespace hydra::data
