#pragma once

#include <string>
#include <vector>

namespace quire {

/// Becomes quire-bench-kernels, the worker's side of this benchmark, with the given arguments. Returns only when there
/// is none: a build without CUDA says so in one line and returns 3, as that program does without a GPU.
int RunKernelsBenchCommand(const std::vector<std::string>& arguments);

}  // namespace quire
