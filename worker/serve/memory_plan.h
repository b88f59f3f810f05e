#pragma once

#include <string>

namespace quire {

/// Prints the memory that the engine of each rank would take, as JSON: [{"weight_bytes", "block_bytes", "state_bytes",
/// "reserved_bytes"}, ...]. `assignment_file` holds the coordinator's Assign frame, header and body. Throws Error if
/// the file or the model cannot be read, or if this build lacks the backend.
int RunMemoryPlan(const std::string& assignment_file);

}  // namespace quire
