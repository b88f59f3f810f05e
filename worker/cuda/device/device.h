#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/stream.h"

namespace quire {

/// The number of usable devices; `problem` explains a count of 0.
struct DeviceCount {
  int count = 0;
  std::string problem;
};
DeviceCount CountDevices();

/// Memory that kernels can access: on the device, or page-locked on the host. Freed with the last copy of this object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<void> data, int64_t bytes) : data_(std::move(data)), bytes_(bytes) {}

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> data_;
  int64_t bytes_ = 0;
};

/// A captured sequence of work with its arguments, which can be launched repeatedly.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// One rank's GPU: its memory and one stream, which runs work in the order in which it was queued. Belongs to the
/// thread that made it. Every function throws Error with the device's name and the action that failed; after an error
/// the process cannot use the device. There are two implementations: the CUDA runtime (device_runtime.cc) and the SIMT
/// emulator (tests/worker/cuda/emulated_device.cc).
class Device {
 public:
  explicit Device(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }               // for example NVIDIA H200
  int compute_capability() const { return compute_capability_; }  // for example 90 for sm_90
  int num_sms() const { return num_sms_; }
  int64_t shared_bytes_per_sm() const { return shared_per_sm_; }
  int64_t shared_bytes_per_block() const { return shared_per_block_; }  // the largest size, by opt-in
  int64_t free_bytes() const;
  kernels::CudaStream stream() const { return stream_; }

  /// Allocates zeroed device memory. Throws Error that names the purpose and how many bytes are missing.
  DeviceMemory Allocate(int64_t bytes, const std::string& purpose);
  /// Allocates page-locked host memory.
  DeviceMemory AllocateHost(int64_t bytes, const std::string& purpose);

  // The functions below queue their work. Host memory must be page-locked, and must not change until the copy has run.
  void CopyToDevice(void* to, const void* from, int64_t bytes);
  void CopyToHost(void* to, const void* from, int64_t bytes);
  void SetZero(void* to, int64_t bytes);

  /// A mark is a point in the stream's queue. There are kNumMarks marks. Setting a mark again moves it.
  static constexpr int kNumMarks = 8;
  void SetMark(int mark);
  bool Reached(int mark);
  void Await(int mark);
  double SecondsBetween(int earlier, int later);  // requires that both marks are reached
  void Synchronize();

  /// Captures the calls that `body` queues instead of running them. The arguments have their values from the time of
  /// capture.
  std::unique_ptr<DeviceGraph> Capture(const std::function<void()>& body);
  void Launch(const DeviceGraph& graph);

 private:
  struct Marks;

  void Check(int status, const char* doing) const;

  std::string name_;
  int ordinal_, compute_capability_ = 0, num_sms_ = 0;
  int64_t shared_per_sm_ = 0, shared_per_block_ = 0;
  kernels::CudaStream stream_;
  std::unique_ptr<Marks> marks_;
};

}  // namespace quire
