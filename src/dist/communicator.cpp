// The solo communicator and what every back end shares.

#include "hydrahead/dist/communicator.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

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
  void barrier() override {}
  Wait start_reduce_scatter(const at::Tensor& output, const at::Tensor& input) override {
    output.copy_(input);
    return [] {};
  }
  Wait start_all_gather(const at::Tensor& output, const at::Tensor& input) override {
    output.copy_(input);
    return [] {};
  }
  bool start_blocks() const override { return false; }
  double take_wait_seconds() override { return 0.0; }
};

// One tensor a rank, like `mine`.
std::vector<at::Tensor> gathered(Communicator& communicator, const at::Tensor& mine) {
  std::vector<at::Tensor> all;
  all.reserve(static_cast<std::size_t>(communicator.size()));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    all.push_back(at::empty_like(mine));
  }
  communicator.all_gather(all, mine);
  return all;
}

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator() { return std::make_unique<SoloCommunicator>(); }

bool any_rank(Communicator& communicator, bool value) {
  at::Tensor flag = at::full({1}, value ? 1.0f : 0.0f);
  communicator.all_reduce_sum(flag);
  return flag.item<float>() > 0;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& length :
       gathered(communicator, at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong))) {
    lengths.push_back(length.item<std::int64_t>());
  }
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  at::Tensor mine = at::zeros({std::max<std::int64_t>(longest, 1)}, at::kByte);
  std::copy(text.begin(), text.end(), mine.data_ptr<std::uint8_t>());
  std::vector<std::string> texts;
  for (const at::Tensor& bytes : gathered(communicator, mine)) {
    const auto* begin = reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>());
    texts.emplace_back(begin, static_cast<std::size_t>(lengths[texts.size()]));
  }
  return texts;
}

void run_together(Communicator& communicator, const std::function<void()>& action) {
  // What a rank tells the others: nothing, or the kind of its exception and the message.
  enum Kind : char { user_error = 'u', interrupted = 'i', error = 'e' };
  std::string fault;
  std::exception_ptr own;
  const auto note = [&](Kind kind, const char* message) {
    fault = std::string(1, kind) + message;
    own = std::current_exception();
  };
  try {
    action();
  } catch (const UserError& failure) {
    note(user_error, failure.what());
  } catch (const Interrupted& failure) {
    note(interrupted, failure.what());
  } catch (const std::exception& failure) {
    note(error, failure.what());
  }
  const std::vector<std::string> faults =
      communicator.size() > 1 ? gather_texts(communicator, fault) : std::vector<std::string>{fault};
  if (own) {
    std::rethrow_exception(own);
  }
  for (std::size_t rank = 0; rank < faults.size(); ++rank) {
    if (!faults[rank].empty()) {
      const std::string message = detail::concat("rank ", rank, ": ", faults[rank].substr(1));
      switch (faults[rank].front()) {
        case user_error: throw UserError(message);
        case interrupted: throw Interrupted(message);
        default: throw Error(message);
      }
    }
  }
}

std::unique_ptr<DirectoryClaim> claim_for_job(Communicator& communicator, const std::filesystem::path& directory) {
  std::unique_ptr<DirectoryClaim> claim;
  communicator.barrier();
  run_together(communicator, [&] {
    if (communicator.rank() == 0) {
      claim = std::make_unique<DirectoryClaim>(directory);
    }
  });
  return claim;
}

void require_same_on_all_ranks(Communicator& communicator, const std::string& what, const std::string& text) {
  const std::vector<std::string> all = gather_texts(communicator, sha256_hex(text));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    HYDRA_REQUIRE(all[rank] == all[0], what, " differs between rank 0 and rank ", rank,
                  ", expected the same on every rank");
  }
}

}  // namespace hydra::dist
