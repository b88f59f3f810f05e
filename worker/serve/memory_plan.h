#pragma once

#include <string>

namespace quire {

/// Prints the memory that the engine of each rank would take, as JSON: [{"weight_bytes", "block_bytes", "state_bytes",
/// "reserved_bytes", "process_bytes", "step_bytes", "file_bytes"}, ...]. `assignment_file` contains the coordinator's
/// Assign frame, header and body. Returns the exit status. Throws Error if the file or the model cannot be read, or if
/// this build lacks the backend.
int RunMemoryPlan(const std::string& assignment_file);

}  // namespace quire
