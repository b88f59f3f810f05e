#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_files.h"

namespace quire {

/// Returns the reason why a pipeline cannot have stages with these numbers of layers, the first stage first, and the
/// remedy; empty if it can. Every layer belongs to one stage. A layer that reads the keys and values of an earlier
/// layer is in that layer's stage.
std::string StagesProblem(const ModelSpec& spec, const std::vector<int32_t>& stage_layers);

/// Cuts the layers into `stages` stages, so that the largest stage has as few bytes of weights as possible. The last
/// stage's bytes include the head. The embeddings do not count, because they are read in place, a row for each token.
/// Returns the number of layers of each stage, the first stage first; returns nothing for one stage. Throws
/// SettingsError when the model allows no such cut.
std::vector<int32_t> PlanStages(const ModelFiles& files, int stages);

}  // namespace quire
