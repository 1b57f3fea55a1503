// The solo communicator and what every back end shares.

#include "hydrahead/dist/communicator.hpp"

#include <ATen/ATen.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/sha256.hpp"

namespace hydra::dist {
namespace {

class SoloCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce_sum(at::Tensor&) override {}
  void broadcast(at::Tensor&, int root) override { HYDRA_CHECK(root == 0, "root is ", root, " of 1 rank"); }
  void all_gather(std::vector<at::Tensor>& outputs, const at::Tensor& input) override {
    HYDRA_CHECK(outputs.size() == 1, "found ", outputs.size(), " outputs for 1 rank");
    outputs[0].copy_(input);
  }
  void reduce_scatter_sum(at::Tensor& output, const std::vector<at::Tensor>& inputs) override {
    HYDRA_CHECK(inputs.size() == 1, "found ", inputs.size(), " inputs for 1 rank");
    output.copy_(inputs[0]);
  }
  void barrier() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() { return std::make_unique<SoloCommunicator>(); }

bool any_rank(Communicator& communicator, bool value) {
  at::Tensor flag = at::full({1}, value ? 1.0f : 0.0f);
  communicator.all_reduce_sum(flag);
  return flag.item<float>() > 0;
}

void require_same_on_all_ranks(Communicator& communicator, const std::string& what, const std::string& text) {
  const std::string hash = sha256_hex(text);
  at::Tensor mine = at::empty({static_cast<std::int64_t>(hash.size())}, at::kByte);
  std::copy(hash.begin(), hash.end(), mine.data_ptr<std::uint8_t>());
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    all.push_back(at::empty_like(mine));
  }
  communicator.all_gather(all, mine);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    HYDRA_REQUIRE(at::equal(all[static_cast<std::size_t>(rank)], all[0]), what, " differs between rank 0 and rank ",
                  rank, ", expected the same on every rank");
  }
}

}  // namespace hydra::dist
