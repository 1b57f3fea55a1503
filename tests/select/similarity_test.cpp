// Similarity and inequality against their definitions.

#include "hydrahead/select/similarity.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace hydra::select {
namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// The definition by N x N Gram matrices: <K, L> / (|K| |L|), K = H X X^T H.
double cka_by_gram(const at::Tensor& x, const at::Tensor& y) {
  const auto gram = [](const at::Tensor& z) {
    const at::Tensor centred = z - z.mean(0, true);
    return at::matmul(centred, centred.t());
  };
  const at::Tensor k = gram(x), l = gram(y);
  return ((k * l).sum() / (k.norm() * l.norm())).item<double>();
}

TEST(Similarity, CkaIsItsDefinition) {
  const at::Tensor a = random({30, 3, 5}, 1), b = random({30, 2, 7}, 2);
  const at::Tensor cka = linear_cka({a, b});
  ASSERT_EQ(cka.sizes(), (std::vector<std::int64_t>{5, 5}));
  const auto output = [&](std::int64_t i) { return i < 3 ? a.select(1, i) : b.select(1, i - 3); };
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(cka[i][j].item<double>(), cka_by_gram(output(i), output(j)), 1e-12) << i << " " << j;
    }
  }
}

TEST(Similarity, CkaIgnoresRotationScaleAndOffset) {
  const at::Tensor x = random({40, 1, 6}, 3);
  const at::Tensor rotation = std::get<0>(at::linalg_qr(random({6, 6}, 4)));
  const at::Tensor same = at::matmul(x, rotation) * 3.0 + 7.0;
  const at::Tensor constant = at::ones({40, 1, 6}, at::kDouble);
  const at::Tensor cka = linear_cka({x, same, constant});
  EXPECT_NEAR(cka[0][1].item<double>(), 1.0, 1e-12);
  EXPECT_TRUE(std::isnan(cka[0][2].item<double>()));  // does not vary
}

TEST(Similarity, CosineIsTheMeanOverTokensInBlocks) {
  at::Tensor x = random({10, 4, 8}, 5);
  x.select(1, 3).copy_(x.select(1, 0) * -2.0);
  x.select(1, 2).zero_();
  const at::Tensor cosine = mean_cosine(10, 3, [&](std::int64_t b, std::int64_t e) { return x.slice(0, b, e); });
  EXPECT_NEAR(cosine[0][3].item<double>(), -1.0, 1e-12);
  EXPECT_NEAR(cosine[1][1].item<double>(), 1.0, 1e-12);
  EXPECT_EQ(cosine[0][2].item<double>(), 0.0);
  const double expected = at::cosine_similarity(x.select(1, 0), x.select(1, 1), 1).mean().item<double>();
  EXPECT_NEAR(cosine[0][1].item<double>(), expected, 1e-12);
}

TEST(Similarity, GiniOfKnownDistributions) {
  EXPECT_DOUBLE_EQ(gini(std::array{2.0, 2.0, 2.0}), 0.0);
  EXPECT_DOUBLE_EQ(gini(std::array{0.0, 0.0, 5.0, 0.0}), 0.75);
  EXPECT_DOUBLE_EQ(gini(std::array{3.0, 1.0, 2.0}), 4.0 / 18.0);  // pairs |2| + |1| + |1| = 4, twice, over 2 * 3 * 6
  EXPECT_TRUE(std::isnan(gini(std::array{0.0, 0.0})));
}

}  // namespace
}  // namespace hydra::select
