#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster/hosts/memory_plan.h"

namespace quire {

/// Returns a line for each change of the settings with which a model that does not fit would fit. rank_memory: the
/// bytes that each rank may use, as in PlanMemory.
std::vector<std::string> WhatWouldFit(const Topology& topology, const ModelFiles& model, int64_t rank_memory,
                                      NodeAnswers& nodes);

}  // namespace quire
