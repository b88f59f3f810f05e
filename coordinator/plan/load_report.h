#pragma once

#include <vector>

#include "comm/base/json.h"
#include "coordinator/plan/load_forecast.h"

namespace quire {

/// Prints a line for each rate, with a bar for its tokens per second.
void PrintLoads(const std::vector<LoadRow>& rows);

Json JsonOf(const std::vector<LoadRow>& rows);
Json JsonOf(const std::vector<SpeedRow>& rows);

}  // namespace quire
