#pragma once

#include <string>
#include <vector>

namespace quire {

/// Replaces this process by quire-bench-kernels with the given arguments. Returns only when that program does not
/// exist: in a build without CUDA, prints a line and returns 3, as the program does without a GPU.
int RunKernelsBenchCommand(const std::vector<std::string>& arguments);

}  // namespace quire
