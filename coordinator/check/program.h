#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace quire {

struct ProgramResult {
  int status = -1;         // exit status; -1: killed, timed out, or not started
  bool timed_out = false;  // then it was killed
  std::string output;      // standard output and error together, at most 64 KiB
};

/// Runs a program to its end, without a shell, and kills it when the time is over.
ProgramResult RunProgram(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace quire
