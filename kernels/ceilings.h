#pragma once

#include "kernels/stream.h"

namespace quire::kernels {

/// The highest rates that the stream's threads together reach on this host, for comparison with measured kernels. A
/// multiplication and its addition count as two operations.
struct Ceilings {
  double read_bytes = 0;    // bytes read per second from memory, far beyond the caches
  double steady_bytes = 0;  // median of the tries; read_bytes is their best; lower when other programs use the memory
  double multiply_add = 0;  // fp32 operations per second
  double int16 = 0;         // 16-bit integer operations per second
  double int8 = 0;          // 8-bit integer operations per second; 0: the processor has no instruction for them
};

/// Measures for about a second. Takes the best of several tries, except for steady_bytes.
Ceilings MeasureCeilings(const CpuStream& stream);

}  // namespace quire::kernels
