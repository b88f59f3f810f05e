#pragma once

#include <cstdint>

namespace quire {

/// The memory of its host that a worker takes beside weights, KV blocks and swap space, in bytes: upper bounds, which a
/// worker reaches in its largest step.
struct WorkingMemory {
  int64_t process_bytes = 0;  // the program, its libraries and connections, and the vocabulary for grammars
  int64_t step_bytes = 0;     // buffers of steps
  int64_t file_bytes = 0;     // pages of the model's files that are mapped at the same time

  int64_t total() const { return process_bytes + step_bytes + file_bytes; }
  /// Returns the bytes that a worker takes only once it computes steps.
  int64_t of_steps() const { return step_bytes + file_bytes; }
};

}  // namespace quire
