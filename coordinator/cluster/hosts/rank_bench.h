#pragma once

#include <string>
#include <vector>

namespace quire {

/// Runs quire-worker with another task than serving, as `ranks` ranks on this host: `flag`, the name of a file for rank
/// 0's results, and the arguments `more`. Returns the file's content. Throws Error when mpirun or a rank fails; their
/// output is on standard error.
std::string RunOnRanks(int ranks, const std::string& flag, const std::vector<std::string>& more);

}  // namespace quire
