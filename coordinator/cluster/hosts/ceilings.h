#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"

namespace quire {

/// Peak rates per second on this machine, of all workers of a topology together.
struct MachineCeilings {
  int ranks = 1, threads = 1;
  std::string isa;
  double read_bytes = 0, steady_bytes = 0, multiply_add = 0, int16 = 0,
         int8 = 0;  // int8 is 0 without int8 instructions
};

/// Starts workers that measure the rates at the same time, each with as many threads as under a server, and returns the
/// sums.
MachineCeilings MeasureMachineCeilings(const Topology& topology);

std::string TextOf(const MachineCeilings& ceilings);
Json JsonOf(const MachineCeilings& ceilings);

/// Returns the operations for one token in the matrix products of all layers: two for each number of a matrix.
/// Attention is not included.
double OperationsOfToken(const ModelSpec& spec);

}  // namespace quire
