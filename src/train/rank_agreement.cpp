#include "hydrahead/train/rank_agreement.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hydrahead/base/error.hpp"
#include "hydrahead/base/sha256.hpp"
#include "hydrahead/train/run_directory.hpp"

namespace hydra::train {
namespace {

constexpr std::uint64_t kSampledRows = 16;

void add_row(Sha256& hash, const data::Row& row) {
  const auto add = [&](const auto& values) {
    hash.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])});
  };
  add(row.ids);
  add(row.labels);
  add(row.lengths);
}

// The sum of all elements read as integers: exact, so it does not depend on the order of addition.
at::Tensor bit_sum(const at::Tensor& values) {
  const at::ScalarType type = values.element_size() == 8   ? at::kLong
                              : values.element_size() == 4 ? at::kInt
                                                           : at::kShort;
  return values.detach().contiguous().view(type).sum(at::kLong);
}

}  // namespace

void require_same_job(dist::Communicator& communicator, const RunConfig& config) {
  if (communicator.size() == 1) {
    return;
  }
  dist::require_same_on_all_ranks(communicator, "the program file", sha256_of_file("/proc/self/exe"));
  const std::vector<std::string> all = dist::gather_texts(communicator, resolved_yaml(config));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::string list;
    for (const std::string& difference : setting_differences(all[0], all[rank], "on rank 0")) {
      list += "\n  " + difference;
    }
    HYDRA_REQUIRE(all[rank] == all[0], "the config of rank ", rank, " differs from that of rank 0", list,
                  "\nexpected the same on every rank");
  }
}

void require_same_rows(dist::Communicator& communicator, const std::string& what, const data::RowSource& rows,
                       std::uint64_t count, const std::vector<data::Row>& validation) {
  if (communicator.size() == 1) {
    return;
  }
  Sha256 hash, held_out;
  for (std::uint64_t i = 0; i < kSampledRows; ++i) {
    add_row(hash, rows.row(i * count / kSampledRows));
  }
  for (const data::Row& row : validation) {
    add_row(held_out, row);
  }
  dist::require_same_on_all_ranks(communicator, "the text of data.sources, in the rows of " + what + ",", hash.hex());
  dist::require_same_on_all_ranks(communicator, "the text of data.validation, in the rows of " + what + ",",
                                  held_out.hex());
}

void require_same_tensors(dist::Communicator& communicator, const std::string& what,
                          const std::vector<model::Parameter>& parameters) {
  if (communicator.size() == 1) {
    return;
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  sums.reserve(parameters.size());
  for (const model::Parameter& parameter : parameters) {
    sums.push_back(bit_sum(*parameter.tensor));
  }
  const at::Tensor mine = at::stack(sums).cpu();
  std::vector<at::Tensor> all(static_cast<std::size_t>(communicator.size()));
  for (at::Tensor& each : all) {
    each = at::empty_like(mine);
  }
  communicator.all_gather(all, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      HYDRA_REQUIRE(all[rank][index].item<std::int64_t>() == all[0][index].item<std::int64_t>(), what, ": tensor ",
                    parameters[i].name, " differs between rank 0 and rank ", rank, ", expected the same on every rank");
    }
  }
}

}  // namespace hydra::train
