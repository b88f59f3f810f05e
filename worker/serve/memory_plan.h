#pragma once

#include <string>

namespace quire {

/// Prints what the engine of each rank would take, as JSON: [{"weight_bytes", "block_bytes", "state_bytes",
/// "reserved_bytes"}, ...]. `assignment_file` holds the coordinator's Assign frame, header and body. Throws Error when
/// the file or the model cannot be read, or this build has not the backend.
int RunMemoryPlan(const std::string& assignment_file);

}  // namespace quire
