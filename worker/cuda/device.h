#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/stream.h"

namespace quire {

/// Devices that this process can compute on; `problem` says why when there are none.
struct DeviceCount {
  int count = 0;
  std::string problem;
};
DeviceCount CountDevices();

/// Memory that kernels can reach: on the device, or page-locked on the host. Freed with the last copy of the object.
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

/// A recorded sequence of work with its arguments, which can be queued again and again.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

/// The accelerator of one rank: its memory and one stream of work, which runs in the order in which it is queued.
/// Belongs to the thread that made it. Everything throws Error with the name of the device and what was being done;
/// after that the device is of no more use to this process. There are two implementations of this header: over the CUDA
/// runtime (device_runtime.cc), and over the SIMT emulator (tests/worker/cuda/emulated_device.cc).
class Device {
 public:
  explicit Device(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }               // "NVIDIA H200"
  int compute_capability() const { return compute_capability_; }  // 90: sm_90
  int num_sms() const { return num_sms_; }
  int64_t shared_bytes_per_sm() const { return shared_per_sm_; }
  int64_t shared_bytes_per_block() const { return shared_per_block_; }  // on request
  int64_t free_bytes() const;
  kernels::CudaStream stream() const { return stream_; }

  /// Zeroed. The error says what the bytes were for, and how many are missing.
  DeviceMemory Allocate(int64_t bytes, const std::string& purpose);
  /// Page-locked, on the host.
  DeviceMemory AllocateHost(int64_t bytes, const std::string& purpose);

  // Queued; host memory must be page-locked and stay as it is until the copy has run.
  void CopyToDevice(void* to, const void* from, int64_t bytes);
  void CopyToHost(void* to, const void* from, int64_t bytes);
  void SetZero(void* to, int64_t bytes);

  /// A place in the stream; there are kNumMarks of them, and each stands where it was set last.
  static constexpr int kNumMarks = 8;
  void SetMark(int mark);
  bool Reached(int mark);
  void Await(int mark);
  double SecondsBetween(int earlier, int later);  // both reached
  void Synchronize();

  /// Records what `body` queues instead of running it. Arguments are taken as they are then.
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
