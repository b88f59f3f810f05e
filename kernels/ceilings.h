#pragma once

#include "kernels/stream.h"

namespace quire::kernels {

/// The most that the stream's threads together reach here: what measurements of kernels are held against. A product and
/// its addition are two operations.
struct Ceilings {
  double read_bytes = 0;    // a second, from memory, far beyond the caches
  double steady_bytes = 0;  // likewise, in the median of the tries: others read at the same time, here and on the host
  double multiply_add = 0;  // fp32 operations a second
  double int16 = 0;         // operations of 16-bit integers a second
  double int8 = 0;          // likewise of 8-bit ones; 0 where there is no instruction for them
};

/// Measures for about a second and takes the best of several tries, but where another one is named.
Ceilings MeasureCeilings(const CpuStream& stream);

}  // namespace quire::kernels
