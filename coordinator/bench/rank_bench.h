#pragma once

#include <string>
#include <vector>

namespace quire {

/// Starts `ranks` workers on this host as a server would, with other work for them: FLAG, the name of a file for rank 0
/// to write its results to, and `more`. Returns what is in the file. Throws Error when mpirun or a rank fails; what
/// they said is on stderr.
std::string RunOnRanks(int ranks, const std::string& flag, const std::vector<std::string>& more);

}  // namespace quire
