#pragma once
// Arguments of the fused KL + CE kernel: plain data, no torch and no CUDA header.

#include <cstdint>

#include "kernels/element.h"

namespace hydra::kernels {

// Rows of logits of one chunk, all row-major with `columns` elements a row.
struct KlCeParams {
  const void* student = nullptr;         // [rows, columns]
  const void* teacher = nullptr;         // [rows, columns] of the same type, or null
  const std::int64_t* labels = nullptr;  // [rows], each in [0, columns)
  float* kl = nullptr;                   // [rows] tau^2 KL(teacher || student); not written without a teacher
  float* ce = nullptr;                   // [rows]
  void* gradient = nullptr;              // [rows, columns], may be `student` if the types agree; null: none wanted
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float temperature = 1.0F;
  // gradient = kl_scale (softmax(z/tau) - softmax(z_t/tau)) + ce_scale (softmax(z) - onehot)
  float kl_scale = 0.0F;
  float ce_scale = 0.0F;
  Element logits = Element::fp32;
  Element gradients = Element::fp32;
};

}  // namespace hydra::kernels
