#pragma once
// For tests that need a GPU: HYDRA_NEEDS_CUDA(); as the first line of the test skips it visibly where there is none.

#include <ATen/Context.h>
#include <gtest/gtest.h>

#define HYDRA_NEEDS_CUDA()                       \
  do {                                           \
    if (!at::hasCUDA()) {                        \
      GTEST_SKIP() << "SKIPPED: no CUDA device"; \
    }                                            \
  } while (false)
