#include "coordinator/cluster/launch/group_shape.h"

#include <algorithm>
#include <functional>

namespace quire {

std::vector<GroupShape> ShapesUpTo(const GroupShape& wanted) {
  std::vector<GroupShape> shapes;
  for (int pipeline = wanted.pipeline; pipeline > 0; --pipeline) {
    for (int tensor = wanted.tensor; tensor > 0; --tensor) {
      GroupShape shape{tensor, {}, pipeline, {}};
      if (tensor == wanted.tensor) shape.shares = wanted.shares;
      if (pipeline == wanted.pipeline) shape.stages = wanted.stages;
      shapes.push_back(shape);
    }
  }
  std::ranges::stable_sort(shapes, std::greater(), &GroupShape::num_ranks);
  return shapes;
}

}  // namespace quire
