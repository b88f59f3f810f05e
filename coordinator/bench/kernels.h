#pragma once

#include <string>
#include <vector>

namespace quire {

/// Replaces this process by quire-bench-kernels with these arguments. If that program does not exist, in a build
/// without CUDA, prints a line and returns 3, as that program does on a machine without a GPU. Throws Error when the
/// program cannot be started.
int RunKernelsBenchCommand(const std::vector<std::string>& arguments);

}  // namespace quire
