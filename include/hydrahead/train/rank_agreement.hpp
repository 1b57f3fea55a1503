#pragma once
// Ranks of one job that are not alike would train nonsense, or wait for each other for ever: what must be the same is
// compared before anything is written. Each call throws a UserError on all ranks that names what differs and on which
// rank; nothing is compared on one rank.

#include <string>
#include <vector>

#include "hydrahead/data/batch.hpp"
#include "hydrahead/dist/communicator.hpp"
#include "hydrahead/model/hydra_model.hpp"
#include "hydrahead/train/run_config.hpp"

namespace hydra::train {

// The program file and every key of the config.
void require_same_job(dist::Communicator& communicator, const RunConfig& config);

// Some rows, evenly over the first `count`, and the held-out rows; `what` names them in the message.
void require_same_rows(dist::Communicator& communicator, const std::string& what, const data::RowSource& rows,
                       std::uint64_t count, const std::vector<data::Row>& validation);

// The bits of all values.
void require_same_tensors(dist::Communicator& communicator, const std::string& what,
                          const std::vector<model::Parameter>& parameters);

}  // namespace hydra::train
