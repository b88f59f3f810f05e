#pragma once

#include <cstdint>

namespace quire {

/// Upper bounds, in bytes, of the host memory that a worker takes besides weights, KV blocks and swap space. A worker
/// reaches these bounds in its largest step.
struct WorkingMemory {
  int64_t process_bytes = 0;  // the program, its libraries and connections, and the vocabulary for grammars
  int64_t step_bytes = 0;     // buffers of steps
  int64_t file_bytes = 0;     // pages of the model's files that are mapped at the same time

  int64_t total() const { return process_bytes + step_bytes + file_bytes; }
  /// Returns the bytes that a worker takes only once it computes steps.
  int64_t of_steps() const { return step_bytes + file_bytes; }
};

}  // namespace quire
