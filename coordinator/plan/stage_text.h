#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/model/model_spec.h"

namespace quire {

/// The number of times that a rank waits for other ranks in a step. Each wait takes at least the time of a message.
struct StepWaits {
  int64_t sums = 0;        // all-reduces over the ranks of a stage, and all-gathers before sampling
  int64_t hand_overs = 0;  // messages from each stage to the next, and of tokens from the last stage to the others
};
StepWaits WaitsOf(const ModelSpec& spec, int tensor, int stages);

/// Returns the first layer of the rank's stage, and the first layer of the stage after it.
std::pair<int64_t, int64_t> LayersOf(const ModelSpec& spec, const GroupCut& cut, Rank rank);

/// Returns a text such as "stage 1 of 2 (layers 0 to 18), "; empty without a pipeline.
std::string StageText(const ModelSpec& spec, const GroupCut& cut, Rank rank);

/// Returns lines with the number of waits of the ranks for each other in a step, and the number of waits if the same
/// ranks were divided into other stages. Returns no lines for one rank.
std::vector<std::string> WaitLines(const ModelSpec& spec, const GroupCut& cut);

}  // namespace quire
