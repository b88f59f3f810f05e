#pragma once

#include <vector>

namespace quire {

/// The number of workers that share the model, and each worker's share.
struct GroupShape {
  int tensor = 1;
  std::vector<double> shares;  // weight per rank; empty: equal shares
  bool operator==(const GroupShape&) const = default;
};

}  // namespace quire
