#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

// Helper kernels of the benchmarks.
namespace quire::bench {

/// Sets data[i] = spread * (random number in [-1, 1)), rounded. Equal seeds give equal data. `count`: elements.
void FillRandom(const kernels::CudaStream& stream, void* data, int64_t count, NumberType dtype, float spread,
                uint64_t seed);

/// Kernels that memory bandwidth limits. StreamCopy reads `from` and writes `to`; StreamRead only reads. `bytes` must
/// be a multiple of 16. `sink` is one word, which is never written.
void StreamCopy(const kernels::CudaStream& stream, void* to, const void* from, int64_t bytes, int num_sms);
void StreamRead(const kernels::CudaStream& stream, const void* from, int64_t bytes, uint32_t* sink, int num_sms);

/// BeginProfile and EndProfile mark the part of the run that a profiler records, if a profiler is attached.
void BeginProfile();
void EndProfile();

}  // namespace quire::bench
