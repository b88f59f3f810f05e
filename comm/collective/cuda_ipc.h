#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/collective/mpi_bootstrap.h"

// The few CUDA runtime calls that collectives need, and memory that devices of several ranks share. Streams are
// cudaStream_t. Functions throw Error with CUDA's own error text.
namespace quire {

/// Returns the number of devices that this process sees; 0 without a driver.
int CudaDeviceCount();
void UseCudaDevice(int ordinal);
/// Describes the current device, for example "NVIDIA H100, GPU-3f..., 0000:3b:00.0".
std::string DescribeCudaDevice();
/// Returns the number of ranks on this host that use the same device as this rank, including this rank. All ranks must
/// call it.
int RanksOnThisDevice(const MpiBootstrap& mpi);

void* MakeCudaStream();
/// Returns zeroed memory of the current device. The memory stays allocated until the process ends.
void* AllocateOnDevice(size_t bytes);
void CopyToDevice(void* to, const void* from, size_t bytes);
void CopyFromDevice(void* to, const void* from, size_t bytes);
void WaitForStream(void* stream);

/// Times one call of `queue` on the stream with CUDA events. Returns microseconds: the median over `rounds` runs of a
/// graph with `calls` calls. If the first call of `queue` does something that a graph cannot capture, such as
/// connecting ranks, call `queue` once before.
double MedianMicros(int rounds, int calls, void* stream, const std::function<void()>& queue);

/// Device memory of all ranks, mapped into every rank's process, and words that this rank's host and device share. The
/// memory stays until the process ends, because a peer may still write when this rank is done.
struct PeerMemory {
  std::vector<void*> arenas;    // each rank's device memory, indexed by rank; empty if the devices share none
  uint32_t* control = nullptr;  // words that host and device share, at one address for both
  std::string why_not;          // the reason when arenas is empty, equal on all ranks; for the log
};

/// Shares `bytes` zeroed bytes of every rank's device, and makes `control_words` zeroed 32-bit words that each rank's
/// host and device share. All ranks must call it. If the ranks are on several hosts, the devices cannot reach each
/// other, or a CUDA call fails, PeerMemory::arenas is empty on all ranks and PeerMemory::why_not has the reason.
PeerMemory ShareDeviceMemory(const MpiBootstrap& mpi, size_t bytes, int64_t control_words);

}  // namespace quire
