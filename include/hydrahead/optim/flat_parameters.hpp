#pragma once
// Trained parameters in flat buffers, one a layer: what is reduced, updated and gathered in one piece, and what the
// ranks split evenly (engineering.md A2). The model's tensors become views of the buffers.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/io/safetensors.hpp"

namespace hydra::optim {

inline constexpr std::int64_t kNormBlock = 1024;  // elements of one partial norm; parts are multiples of it

struct TrainedParameter {
  std::string name;
  at::Tensor* tensor = nullptr;  // in the model: an fp32 (fp64) leaf
  std::int64_t layer = -1;       // whose forward pass reads it first and whose backward pass completes its gradient
  bool decay = true;             // weight decay applies: matrices
  double rate_scale = 1.0;       // multiplies the learning rate
  bool read_as_master = false;   // the model reads it in the master's type, else in its compute type
};

// Elements [begin, end) of a part that are updated alike.
struct UpdateRun {
  std::int64_t begin = 0, end = 0;
  bool decay = true;
  double rate_scale = 1.0;
};

struct FlatUnit {
  struct Member {
    std::size_t parameter;  // into FlatParameters::parameters()
    std::int64_t offset;    // elements
  };
  std::int64_t layer = -1;
  std::vector<Member> members;
  std::int64_t size = 0;  // padded elements
  at::Tensor values;      // [size] what the model reads: masters, or their bf16 copies
  at::Tensor master;      // [size / parts] this rank's part; a view of `values` where that holds masters
  std::vector<UpdateRun> runs;
};

class FlatParameters {
 public:
  // compute_type: what the model reads matrices in; a 16-bit type makes copies of it beside the masters. sharded: a
  // rank keeps the masters of its part alone. The parameters' gradients are of the masters' type.
  FlatParameters(std::vector<TrainedParameter> parameters, at::ScalarType compute_type, bool sharded,
                 dist::Communicator& communicator);
  FlatParameters(const FlatParameters&) = delete;
  FlatParameters& operator=(const FlatParameters&) = delete;

  const std::vector<TrainedParameter>& parameters() const { return parameters_; }
  const std::vector<FlatUnit>& units() const { return units_; }  // by ascending layer
  int parts() const { return parts_; }                           // 1: every rank keeps all masters
  int part() const { return parts_ > 1 ? communicator_.rank() : 0; }
  // The member's elements of a buffer of its unit, in its shape.
  at::Tensor view(const FlatUnit::Member& member, const at::Tensor& flat) const;

  // After a unit's master has changed: its copy follows, and the other ranks' parts come. The model may read the
  // parameters of a layer after wait_for(layer).
  void publish(std::size_t unit);
  void wait_for(std::int64_t layer);  // and all before it
  void wait_for_all();

  // The masters of the parameters that this rank wants, whole, in host memory. All ranks call it together.
  io::NamedTensors gather(const std::function<bool(const std::string& name)>& wanted);
  // Gives the model whole fp32 tensors again. All ranks call it together, as the last call.
  void restore();

 private:
  void add_units();
  void fill(FlatUnit& unit, const at::TensorOptions& master_options, at::ScalarType compute_type);
  at::Tensor whole_master(const FlatUnit& unit);

  std::vector<TrainedParameter> parameters_;
  dist::Communicator& communicator_;
  const int parts_;
  std::vector<FlatUnit> units_;
  std::vector<std::pair<std::size_t, dist::Wait>> gathers_;  // under way, in the order of the units
};

}  // namespace hydra::optim
