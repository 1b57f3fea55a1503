// Zeroed heads leave nothing in the attention output; the teacher itself keeps its weights.

#include "hydrahead/model/zero_heads.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hydrahead/ops/elementwise.hpp"

namespace hydra::model {
namespace {

TEST(ZeroHeads, OutputIsThatOfTheOtherHeads) {
  const Model teacher = load_model(std::filesystem::path(HYDRA_FIXTURES) / "qwen3-nano", {});
  const at::Tensor before = teacher.layers[2].teacher.o.clone();
  const Model without = with_heads_zeroed(teacher, {{}, {}, {1, 3}, {}, {}, {}});
  EXPECT_TRUE(at::equal(teacher.layers[2].teacher.o, before));
  EXPECT_TRUE(without.layers[1].teacher.o.is_same(teacher.layers[1].teacher.o));

  const at::Tensor x = at::randn({20, teacher.config.base.hidden_size});
  const auto rows = ops::make_sequences({20}, at::kCPU);
  const auto tables = rotary_tables(teacher, rows);
  at::Tensor heads = teacher_head_outputs(teacher, 2, x, rows, tables).clone();
  heads.select(1, 1).zero_();
  heads.select(1, 3).zero_();
  const at::Tensor expected = ops::linear(heads.flatten(1), before);
  EXPECT_TRUE(at::allclose(attention_sublayer(without, 2, x, rows, tables, {}), expected, 1e-5, 1e-6));
}

}  // namespace
}  // namespace hydra::model
