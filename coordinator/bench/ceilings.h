#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"

namespace quire {

/// What the workers of a topology together could do at the most on this machine, a second each.
struct MachineCeilings {
  int ranks = 1, threads = 1;
  std::string isa;
  double read_bytes = 0, steady_bytes = 0, multiply_add = 0, int16 = 0,
         int8 = 0;  // int8: 0 without an instruction for it
};

/// Starts workers that measure it, all at the same time, with as many threads as they would serve with.
MachineCeilings MeasureMachineCeilings(const Topology& topology);

std::string TextOf(const MachineCeilings& ceilings);
Json JsonOf(const MachineCeilings& ceilings);

/// Operations of one token in the layers' products: two for each number of a matrix. Attention is not counted.
double OperationsOfToken(const ModelSpec& spec);

}  // namespace quire
