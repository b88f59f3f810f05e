#include "comm/collective/cuda_ipc.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

namespace {

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) Fail("CUDA: {}: {}", what, cudaGetErrorString(error));
}

int CurrentDevice() {
  int device = 0;
  Check(cudaGetDevice(&device), "current device");
  return device;
}

std::string BusId() {
  char id[32] = {};
  Check(cudaDeviceGetPCIBusId(id, sizeof(id), CurrentDevice()), "PCI address of the device");
  return id;
}

/// Runs a step that may fail on some ranks only. Returns, on every rank, the error text of the first rank on which it
/// failed; empty when it succeeded on all ranks. All ranks must call it.
std::string Together(const MpiBootstrap& mpi, const std::function<void()>& step) {
  std::string failure;
  try {
    step();
  } catch (const Error& error) {
    failure = fmt::format("rank {}: {}", mpi.rank(), error.what());
    cudaGetLastError();  // clears the error, so that the next launch does not report it
  }
  for (const std::string& text : mpi.GatherAll(failure)) {
    if (!text.empty()) return text;
  }
  return "";
}

/// Throws Error when this rank's device cannot access a peer's device. A peer's device that this process does not see
/// is skipped; opening its memory later reports the error.
void CheckPeerAccess(const std::vector<std::string>& bus_ids) {
  for (size_t peer = 0; peer < bus_ids.size(); ++peer) {
    int device = 0, can = 0;
    if (cudaDeviceGetByPCIBusId(&device, bus_ids[peer].c_str()) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    if (device == CurrentDevice()) continue;
    Check(cudaDeviceCanAccessPeer(&can, CurrentDevice(), device), "peer access");
    if (can == 0) Fail("its device has no peer access to that of rank {} ({})", peer, bus_ids[peer]);
  }
}

void* OpenPeer(const std::string& handle_bytes, size_t peer) {
  cudaIpcMemHandle_t handle;
  QUIRE_CHECK(handle_bytes.size() == sizeof(handle), "{} bytes from rank {}", handle_bytes.size(), peer);
  std::memcpy(&handle, handle_bytes.data(), sizeof(handle));
  void* memory = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) Fail("cannot map the memory of rank {}: {}", peer, cudaGetErrorString(error));
  return memory;
}

}  // namespace

int CudaDeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

void UseCudaDevice(int ordinal) { Check(cudaSetDevice(ordinal), "choosing a device"); }

std::string DescribeCudaDevice() {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, CurrentDevice()), "device properties");
  std::string uuid = "GPU-";
  for (const char byte : properties.uuid.bytes) uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return fmt::format("{}, {}, {}", properties.name, uuid, BusId());
}

int RanksOnThisDevice(const MpiBootstrap& mpi) {
  const std::string mine = mpi.host_name() + " " + DescribeCudaDevice();
  const std::vector<std::string> all = mpi.GatherAll(mine);
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

void* MakeCudaStream() {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  return stream;
}

void* AllocateOnDevice(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "memory");
  Check(cudaMemset(memory, 0, bytes), "zeroing memory");
  Check(cudaDeviceSynchronize(), "zeroing memory");
  return memory;
}

void CopyToDevice(void* to, const void* from, size_t bytes) {
  Check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void CopyFromDevice(void* to, const void* from, size_t bytes) {
  Check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void WaitForStream(void* stream) { Check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "stream"); }

double MedianMicros(int rounds, int calls, void* stream, const std::function<void()>& queue) {
  const auto s = static_cast<cudaStream_t>(stream);
  cudaGraph_t graph = nullptr;
  Check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "beginning a graph");
  for (int i = 0; i < calls; ++i) queue();
  Check(cudaStreamEndCapture(s, &graph), "ending a graph");
  cudaGraphExec_t ready = nullptr;
  Check(cudaGraphInstantiateWithFlags(&ready, graph, 0), "making a graph ready");
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaEventCreate(&begin), "event");
  Check(cudaEventCreate(&end), "event");
  std::vector<float> millis(static_cast<size_t>(rounds));
  for (float& m : millis) {
    Check(cudaEventRecord(begin, s), "event");
    Check(cudaGraphLaunch(ready, s), "launching a graph");
    Check(cudaEventRecord(end, s), "event");
    Check(cudaEventSynchronize(end), "timed calls");
    Check(cudaEventElapsedTime(&m, begin, end), "time between events");
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  std::nth_element(millis.begin(), millis.begin() + rounds / 2, millis.end());
  return static_cast<double>(millis[static_cast<size_t>(rounds / 2)]) * 1e3 / calls;
}

PeerMemory ShareDeviceMemory(const MpiBootstrap& mpi, size_t bytes, int64_t control_words) {
  PeerMemory memory;
  if (mpi.local_size() < mpi.world_size()) memory.why_not = "the ranks are on several hosts";
  for (const std::string& text : mpi.GatherAll(memory.why_not)) {
    if (!text.empty()) return {{}, nullptr, text};
  }
  std::string bus_id;
  memory.why_not = Together(mpi, [&] { bus_id = BusId(); });
  if (!memory.why_not.empty()) return memory;
  const std::vector<std::string> bus_ids = mpi.GatherAll(bus_id);

  void* mine = nullptr;
  cudaIpcMemHandle_t handle{};
  memory.why_not = Together(mpi, [&] {
    CheckPeerAccess(bus_ids);
    mine = AllocateOnDevice(bytes);
    Check(cudaIpcGetMemHandle(&handle, mine), "sharing memory");
    void* control = nullptr;
    const size_t control_bytes = static_cast<size_t>(control_words) * sizeof(uint32_t);
    Check(cudaHostAlloc(&control, control_bytes, cudaHostAllocMapped | cudaHostAllocPortable), "host memory");
    std::memset(control, 0, control_bytes);
    memory.control = static_cast<uint32_t*>(control);
  });
  if (!memory.why_not.empty()) return memory;
  const std::vector<std::string> handles =
      mpi.GatherAll(std::string(reinterpret_cast<const char*>(&handle), sizeof(handle)));
  std::vector<void*> arenas;
  memory.why_not = Together(mpi, [&] {
    for (size_t peer = 0; peer < handles.size(); ++peer) {
      arenas.push_back(peer == static_cast<size_t>(mpi.rank()) ? mine : OpenPeer(handles[peer], peer));
    }
  });
  if (memory.why_not.empty()) memory.arenas = std::move(arenas);
  return memory;
}

}  // namespace quire
