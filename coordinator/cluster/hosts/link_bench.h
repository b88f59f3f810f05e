#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/cluster/launch/placement.h"

namespace quire {

/// The times that a rank waits in a step of `rows` rows, measured with the collectives that the server uses.
struct MeasuredWait {
  int tensor = 1, pipeline = 1;
  int64_t rows = 1;
  double sum_seconds = 0;   // seconds of one all-reduce over the ranks of a stage
  double turn_seconds = 0;  // seconds for the rows through all stages, and the tokens back
};

/// Starts the topology's ranks where `placement` says (empty: on this host). Measures the waits for each division of
/// the ranks with each number of rows. cuts: the divisions, as pairs of a stage's number of ranks and the number of
/// stages. row_bytes: bytes of one token's row. Throws Error when the ranks do not start, or disagree.
std::vector<MeasuredWait> MeasureWaits(const Topology& topology, const std::vector<NodeRanks>& placement,
                                       const std::vector<std::pair<int, int>>& cuts, int64_t row_bytes,
                                       const std::vector<int>& rows);

}  // namespace quire
