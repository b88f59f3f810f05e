#pragma once

#include <vector>

namespace quire {

/// How many workers share the model, and what part each takes.
struct GroupShape {
  int tensor = 1;
  std::vector<double> shares;  // weight per rank; none: equal
  bool operator==(const GroupShape&) const = default;
};

}  // namespace quire
