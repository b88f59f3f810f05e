#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/stream.h"

// What benchmarks need on the device besides what they measure.
namespace quire::bench {

/// data[i] = spread * (uniform in [-1, 1)), rounded; the same for the same seed. `count` elements.
void FillRandom(const kernels::CudaStream& stream, void* data, int64_t count, NumberType dtype, float spread,
                uint64_t seed);

/// The two ways to be bound by memory: reads `from` and writes `to`, or only reads. Multiples of 16 bytes; `sink` is
/// one word that is never written.
void StreamCopy(const kernels::CudaStream& stream, void* to, const void* from, int64_t bytes, int num_sms);
void StreamRead(const kernels::CudaStream& stream, const void* from, int64_t bytes, uint32_t* sink, int num_sms);

/// What a profiler that was told to wait records begins and ends here.
void BeginProfile();
void EndProfile();

}  // namespace quire::bench
