#include "pair_store.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "hydrahead/base/error.hpp"
#include "hydrahead/io/safetensors.hpp"
#include "work_directory.hpp"

namespace hydra::select {

PairStore::PairStore(fs::path dir, const Json& settings, dist::Communicator& communicator) : dir_(std::move(dir)) {
  open_work_directory(dir_, settings, communicator);
}

fs::path PairStore::file_of(const std::string& id) const {
  std::string name = id;
  std::replace(name.begin(), name.end(), '/', '-');
  return dir_ / (name + ".safetensors");
}

bool PairStore::contains(const std::string& id) const { return fs::exists(file_of(id)); }

void PairStore::save(const std::string& id, const PairEffects& effects) const {
  io::NamedTensors tensors = {{"margins", at::tensor({effects.clean, effects.corrupt}, at::kDouble)}};
  if (effects.kept) {
    tensors.emplace_back("receive", effects.receive);
    tensors.emplace_back("attribution", effects.attribution);
    for (std::size_t layer = 1; layer < effects.changes.size(); ++layer) {
      tensors.emplace_back("changes." + std::to_string(layer), effects.changes[layer]);
    }
  }
  const fs::path temporary = file_of(id) += ".tmp";  // a file under its own name is complete
  io::write_safetensors(temporary, tensors);
  fs::rename(temporary, file_of(id));
}

PairEffects PairStore::load(const std::string& id, std::int64_t layers) const {
  const auto file = io::SafetensorsFile::open(file_of(id));
  const at::Tensor margins = file.load("margins");
  PairEffects effects{.clean = margins[0].item<double>(),
                      .corrupt = margins[1].item<double>(),
                      .kept = file.contains("receive"),
                      .receive = {},
                      .attribution = {},
                      .changes = {}};
  if (effects.kept) {
    effects.receive = file.load("receive");
    effects.attribution = file.load("attribution");
    if (file.contains("changes.1")) {
      effects.changes.emplace_back();
      for (std::int64_t layer = 1; layer < layers; ++layer) {
        effects.changes.push_back(file.load("changes." + std::to_string(layer)));
      }
    }
  }
  return effects;
}

}  // namespace hydra::select
