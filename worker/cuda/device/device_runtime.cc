#include <cuda_runtime_api.h>

#include "comm/base/error.h"
#include "worker/cuda/device/device.h"

namespace quire {

namespace {

class RuntimeGraph final : public DeviceGraph {
 public:
  explicit RuntimeGraph(cudaGraphExec_t exec) : exec_(exec) {}
  ~RuntimeGraph() override { cudaGraphExecDestroy(exec_); }
  cudaGraphExec_t exec() const { return exec_; }

 private:
  cudaGraphExec_t exec_;
};

cudaStream_t Native(kernels::CudaStream stream) { return static_cast<cudaStream_t>(stream.handle); }

}  // namespace

struct Device::Marks {
  cudaEvent_t events[kNumMarks] = {};
};

DeviceCount CountDevices() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaRuntimeGetVersion(&runtime);
  if (status == cudaSuccess && count > 0) return {count, ""};
  cudaGetLastError();  // clears the error, which would otherwise appear at the next call
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return {0, "no NVIDIA driver is installed"};
  if (driver < runtime) {
    return {0, fmt::format("the NVIDIA driver knows CUDA {}.{}, this build needs {}.{}: update the driver",
                           driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10)};
  }
  return {0, status == cudaSuccess || status == cudaErrorNoDevice
                 ? "no NVIDIA GPU is visible to this process (is CUDA_VISIBLE_DEVICES set?)"
                 : fmt::format("{}", cudaGetErrorString(status))};
}

void Device::Check(int status, const char* doing) const {
  if (status == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(status);
  Fail("device {} ({}): {}: {}: {}", ordinal_, name_, doing, cudaGetErrorName(error), cudaGetErrorString(error));
}

Device::Device(int ordinal) : name_("unknown"), ordinal_(ordinal), marks_(std::make_unique<Marks>()) {
  Check(cudaSetDevice(ordinal), "choosing it");
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, ordinal), "asking for its properties");
  name_ = properties.name;
  compute_capability_ = 10 * properties.major + properties.minor;
  num_sms_ = properties.multiProcessorCount;
  shared_per_sm_ = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
  shared_per_block_ = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  if (compute_capability_ < 80) {
    FailSettings("device {} ({}) is sm_{}; Quire needs sm_80 (Ampere) or newer: use --backend cpu", ordinal, name_,
                 compute_capability_);
  }
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_.handle = stream;
  for (cudaEvent_t& event : marks_->events) Check(cudaEventCreate(&event), "making an event");
}

Device::~Device() {
  cudaStreamSynchronize(Native(stream_));
  for (cudaEvent_t event : marks_->events) cudaEventDestroy(event);
  cudaStreamDestroy(Native(stream_));
}

int64_t Device::free_bytes() const {
  size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "asking for its free memory");
  return static_cast<int64_t>(free);
}

DeviceMemory Device::Allocate(int64_t bytes, const std::string& purpose) {
  void* data = nullptr;
  if (bytes == 0) return {};
  const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const int64_t free = free_bytes();
    Fail(
        "device {} ({}): {} needs {} bytes, {} are free, {} are missing; use more ranks (--tensor-parallel-size), "
        "lower "
        "--max-num-batched-tokens or --max-num-seqs, or end what else uses the device",
        ordinal_, name_, purpose, bytes, free, bytes - free);
  }
  Check(status, "reserving memory");
  DeviceMemory memory({data, [](void* p) { cudaFree(p); }}, bytes);
  SetZero(data, bytes);
  return memory;
}

DeviceMemory Device::AllocateHost(int64_t bytes, const std::string& purpose) {
  void* data = nullptr;
  if (bytes == 0) return {};
  const cudaError_t status = cudaMallocHost(&data, static_cast<size_t>(bytes));
  if (status != cudaSuccess) {
    cudaGetLastError();
    Fail("{} needs {} bytes of page-locked host memory: {}; lower --swap-space or raise the limit (ulimit -l)", purpose,
         bytes, cudaGetErrorString(status));
  }
  return {{data, [](void* p) { cudaFreeHost(p); }}, bytes};
}

void Device::CopyToDevice(void* to, const void* from, int64_t bytes) {
  Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, Native(stream_)),
        "copying to it");
}

void Device::CopyToHost(void* to, const void* from, int64_t bytes) {
  Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, Native(stream_)),
        "copying from it");
}

void Device::SetZero(void* to, int64_t bytes) {
  Check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), Native(stream_)), "clearing memory");
}

void Device::SetMark(int mark) { Check(cudaEventRecord(marks_->events[mark], Native(stream_)), "recording an event"); }

bool Device::Reached(int mark) {
  const cudaError_t status = cudaEventQuery(marks_->events[mark]);
  if (status == cudaErrorNotReady) return false;
  Check(status, "computing a step");
  return true;
}

void Device::Await(int mark) { Check(cudaEventSynchronize(marks_->events[mark]), "computing a step"); }

double Device::SecondsBetween(int earlier, int later) {
  float millis = 0;
  Check(cudaEventElapsedTime(&millis, marks_->events[earlier], marks_->events[later]), "measuring time");
  return millis * 1e-3;
}

void Device::Synchronize() { Check(cudaStreamSynchronize(Native(stream_)), "computing"); }

std::unique_ptr<DeviceGraph> Device::Capture(const std::function<void()>& body) {
  cudaGraph_t graph = nullptr;
  Check(cudaStreamBeginCapture(Native(stream_), cudaStreamCaptureModeThreadLocal), "beginning a graph");
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(Native(stream_), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  Check(cudaStreamEndCapture(Native(stream_), &graph), "ending a graph");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t status = cudaGraphInstantiateWithFlags(&exec, graph, 0);
  cudaGraphDestroy(graph);
  Check(status, "making a graph ready");
  return std::make_unique<RuntimeGraph>(exec);
}

void Device::Launch(const DeviceGraph& graph) {
  Check(cudaGraphLaunch(static_cast<const RuntimeGraph&>(graph).exec(), Native(stream_)), "launching a graph");
}

}  // namespace quire
