#pragma once
// Comparing tensors in tests: relative L2 error, largest absolute error with its index, and the placement of NaN.
//   EXPECT_TRUE(hydra::test::close(actual, expected, 1e-5));

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace hydra::test {

struct Difference {
  double relative_l2 = 0;  // |a - b| / |b|; |a - b| when b is all zero
  double max_abs = 0;
  std::vector<std::int64_t> worst;  // index of max_abs
  bool same_nan = true;             // NaN in the same places; these places are left out of the figures
};

inline Difference compare(const at::Tensor& actual, const at::Tensor& expected) {
  const auto a = actual.detach().cpu().to(at::kDouble).contiguous();
  const auto b = expected.detach().cpu().to(at::kDouble).contiguous();
  Difference result;
  result.same_nan = at::equal(a.isnan(), b.isnan());
  const auto hidden = a.isnan().logical_or(b.isnan());
  const auto delta = (a - b).masked_fill(hidden, 0);
  const auto norm = b.masked_fill(hidden, 0).norm().item<double>();
  result.relative_l2 = delta.norm().item<double>() / (norm > 0 ? norm : 1.0);
  if (delta.numel() > 0) {
    auto flat = delta.abs().argmax().item<std::int64_t>();
    result.max_abs = delta.abs().max().item<double>();
    result.worst.resize(static_cast<std::size_t>(delta.dim()));
    for (std::int64_t i = delta.dim() - 1; i >= 0; --i) {
      result.worst[static_cast<std::size_t>(i)] = flat % delta.size(i);
      flat /= delta.size(i);
    }
  }
  return result;
}

inline std::string describe(const Difference& d) {
  std::ostringstream out;
  out << "relative L2 " << d.relative_l2 << ", largest " << d.max_abs << " at [";
  for (std::size_t i = 0; i < d.worst.size(); ++i) {
    out << (i == 0 ? "" : ", ") << d.worst[i];
  }
  out << "]" << (d.same_nan ? "" : ", NaN in different places");
  return out.str();
}

// Same shape, NaN nowhere, relative L2 error at most `tolerance` (a difference of 1e-30 at most counts as none).
inline ::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  if (!actual.defined() || !expected.defined()) {
    return ::testing::AssertionFailure() << "undefined tensor";
  }
  if (actual.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure() << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  if (actual.isnan().any().item<bool>()) {
    return ::testing::AssertionFailure() << "the result holds NaN";
  }
  const auto difference = compare(actual, expected);
  if (!difference.same_nan || !(difference.relative_l2 <= tolerance || difference.max_abs <= 1e-30)) {
    return ::testing::AssertionFailure() << describe(difference) << "; tolerance " << tolerance;
  }
  return ::testing::AssertionSuccess();
}

// Every bit alike, NaN included.
inline ::testing::AssertionResult identical(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes() || actual.scalar_type() != expected.scalar_type()) {
    return ::testing::AssertionFailure() << actual.scalar_type() << actual.sizes() << ", expected "
                                         << expected.scalar_type() << expected.sizes();
  }
  const auto difference = compare(actual, expected);
  if (!difference.same_nan || difference.max_abs != 0) {
    return ::testing::AssertionFailure() << describe(difference);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace hydra::test
