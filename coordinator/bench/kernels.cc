#include "coordinator/bench/kernels.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/launcher.h"

namespace quire {

int RunKernelsBenchCommand(const std::vector<std::string>& arguments) {
  const auto program = FindProgram("quire-bench-kernels");
  if (!program) {
    fmt::print("built without CUDA: there is no quire-bench-kernels; nothing was measured\n");
    return 3;
  }
  std::vector<std::string> command = {*program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(program->c_str(), pointers.data());
  Fail("{} cannot be started: {}", *program, std::strerror(errno));
}

}  // namespace quire
