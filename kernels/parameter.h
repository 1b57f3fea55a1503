#pragma once
// A small parameter of a kernel (norm weights, biases, taps), in the type that it is stored in.

#include "kernels/element.h"

namespace hydra::kernels {

struct Parameter {
  const void* data = nullptr;  // contiguous; null: absent
  Element element = Element::fp32;
};

}  // namespace hydra::kernels
