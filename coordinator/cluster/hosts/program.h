#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace quire {

struct ProgramResult {
  int status = -1;         // exit status; -1: killed, timed out, or not started
  bool timed_out = false;  // the program was killed at the limit
  std::string output;      // standard output and error together, about 64 KiB at most
};

/// Runs a program without a shell and waits for its end. Kills the program when the limit has passed.
ProgramResult RunProgram(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace quire
