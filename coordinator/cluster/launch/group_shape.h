#pragma once

#include <vector>

#include "comm/topology/topology.h"

namespace quire {

/// The division of a model among the workers of a group.
struct GroupShape {
  int tensor = 1;              // workers of a stage
  std::vector<double> shares;  // relative part of each worker of a stage; empty: equal parts
  int pipeline = 1;            // stages
  std::vector<int> stages;     // layers of each stage; empty: stages of equal work

  int num_ranks() const { return tensor * pipeline; }
  bool operator==(const GroupShape&) const = default;
};

inline GroupShape ShapeOf(const ModelSettings::Parallel& p) { return {p.tensor, p.shares, p.pipeline, p.stages}; }

/// Returns the shape, then the smaller shapes that replace it when hosts are lost, in the order of preference: first by
/// most workers, then by most stages.
std::vector<GroupShape> ShapesUpTo(const GroupShape& wanted);

}  // namespace quire
