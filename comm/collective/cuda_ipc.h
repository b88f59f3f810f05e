#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"

// The few calls of the CUDA runtime that collectives need, and the memory of peers. Streams are cudaStream_t. Throws
// Error with CUDA's words.
namespace quire {

/// Devices that this process sees; 0 without a driver.
int CudaDeviceCount();
void UseCudaDevice(int ordinal);
/// The current device: "NVIDIA H100, GPU-3f..., 0000:3b:00.0".
std::string DescribeCudaDevice();
/// How many ranks of this host, this one included, have this rank's current device. Collective call.
int RanksOnThisDevice(const MpiBootstrap& mpi);

void* MakeCudaStream();
/// Zeroed memory of the current device, until the process ends.
void* AllocateOnDevice(size_t bytes);
void CopyToDevice(void* to, const void* from, size_t bytes);
void CopyFromDevice(void* to, const void* from, size_t bytes);
void WaitForStream(void* stream);

/// Microseconds of one call of `queue` on the stream, by events: the median over `rounds` runs of a graph of `calls`
/// calls. What must not be in a graph, such as ranks that connect, was called before.
double MedianMicros(int rounds, int calls, void* stream, const std::function<void()>& queue);

/// Memory on the devices of all ranks, each mapped into all of them, and words that this rank's host and device share.
/// Stays until the process ends: a peer may still write when this rank is done.
struct PeerMemory {
  std::vector<void*> arenas;    // by rank; empty if there is no such memory
  uint32_t* control = nullptr;  // host and device see it under the same address
  std::string why_not;          // on all ranks the same, for the log
};

/// Collective call; `bytes` zeroed bytes per rank. Not an error when the ranks are on several hosts or the devices
/// cannot reach each other: then no rank gets any.
PeerMemory ShareDeviceMemory(const MpiBootstrap& mpi, size_t bytes, int64_t control_words);

}  // namespace quire
