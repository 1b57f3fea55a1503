#pragma once
// What scoring one pair found, on disk as soon as it is known: a file a pair, so that a stopped selection goes on where
// it was, on any number of ranks.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "hydrahead/base/json.hpp"
#include "hydrahead/dist/communicator.hpp"

namespace hydra::select {

struct PairEffects {
  double clean = 0, corrupt = 0;    // m(x), m(x')
  bool kept = false;                // the margin is large enough; the rest is undefined otherwise
  at::Tensor receive, attribution;  // [L, H] fp64
  std::vector<at::Tensor> changes;  // of sender_changes; empty for a method or config without senders
};

class PairStore {
 public:
  // UserError: a directory that holds pairs scored with other settings (each differing key is named).
  PairStore(std::filesystem::path dir, const Json& settings, dist::Communicator& communicator);
  bool contains(const std::string& id) const;
  void save(const std::string& id, const PairEffects& effects) const;
  PairEffects load(const std::string& id, std::int64_t layers) const;  // tensors are maps of the file

 private:
  std::filesystem::path file_of(const std::string& id) const;
  std::filesystem::path dir_;
};

}  // namespace hydra::select
