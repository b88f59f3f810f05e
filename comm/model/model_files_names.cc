// Names of tensors in HF's files, brought to those that the lists of families have.
#include <algorithm>

#include "comm/model/architecture.h"
#include "comm/model/model_files.h"

namespace quire {

void ModelFiles::CompleteNames() {
  const std::string base = HfBaseOf(spec_);
  if (base.empty() || std::ranges::any_of(tensors_, [&](const auto& t) { return t.first.starts_with(base); })) return;
  TensorMap named;
  for (auto& [name, tensor] : tensors_) named.emplace(base + name, std::move(tensor));
  tensors_ = std::move(named);
}

void ModelFiles::KeepText() {
  const std::string base = HfTextOf(spec_);
  if (base.empty() || std::ranges::none_of(tensors_, [&](const auto& t) { return t.first.starts_with(base); })) return;
  TensorMap kept;
  for (auto& [name, tensor] : tensors_) {
    if (name.starts_with(base)) {
      kept.emplace("model." + name.substr(base.size()), std::move(tensor));
    } else if (!name.starts_with("model.")) {
      kept.emplace(name, std::move(tensor));
    }
  }
  tensors_ = std::move(kept);
}

}  // namespace quire
