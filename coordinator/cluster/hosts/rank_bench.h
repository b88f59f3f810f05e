#pragma once

#include <string>
#include <vector>

namespace quire {

/// Runs quire-worker on this host as `ranks` ranks that do another task than serving. The arguments of quire-worker are
/// `flag`, the path of a file for rank 0's results, and `more`. Returns the file's content. Throws Error when mpirun or
/// a rank fails; their output is on standard error.
std::string RunOnRanks(int ranks, const std::string& flag, const std::vector<std::string>& more);

}  // namespace quire
