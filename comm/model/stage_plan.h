#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_files.h"

namespace quire {

/// Returns the reason why a pipeline cannot have stages with these numbers of layers, the first stage first, and the
/// remedy; empty if it can. Every layer must belong to a stage, and a layer that reads the keys and values of an
/// earlier layer must be in that layer's stage.
std::string StagesProblem(const ModelSpec& spec, const std::vector<int32_t>& stage_layers);

/// Cuts the layers into `stages` stages, so that a token is multiplied with as few numbers as possible in the largest
/// stage. The head belongs to the last stage. The embeddings do not count, because a token only copies one row of them.
/// Returns the layers of each stage, first stage first; nothing for one stage. Throws SettingsError when the model
/// allows no such cut.
std::vector<int32_t> PlanStages(const ModelFiles& files, int stages);

/// Returns the largest stage's part of the numbers with which a token is multiplied: 1 / S for S even stages, 1 without
/// a pipeline. stage_layers: as PlanStages returns them.
double PartOfLargestStage(const ModelFiles& files, const std::vector<int32_t>& stage_layers);

}  // namespace quire
