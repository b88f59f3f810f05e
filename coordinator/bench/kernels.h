#pragma once

#include <string>
#include <vector>

namespace quire {

/// Replaces this process by quire-bench-kernels with these arguments. Returns only when that program does not exist, in
/// a build without CUDA: then prints a line and returns 3, as that program does on a machine without a GPU.
int RunKernelsBenchCommand(const std::vector<std::string>& arguments);

}  // namespace quire
