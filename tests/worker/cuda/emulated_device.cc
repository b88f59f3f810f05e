// Implements worker/cuda/device/device.h without a GPU: work runs as soon as it is queued, and kernels run in the SIMT
// emulator.
#include <chrono>
#include <cstring>

#include "comm/base/error.h"
#include "simt/global_memory.h"
#include "simt/submit.h"
#include "worker/cuda/device/device.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFreeBytes = int64_t{24} << 20;

class EmulatedGraph final : public DeviceGraph {
 public:
  std::vector<simt::Work> work;
};

DeviceMemory Registered(int64_t bytes) {
  const auto owner = std::make_shared<simt::GlobalBytes>(static_cast<size_t>(bytes));
  return {std::shared_ptr<void>(owner, owner->data()), bytes};
}

void SubmitCopy(void* to, const void* from, int64_t bytes) {
  simt::Submit([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}

}  // namespace

struct Device::Marks {
  Clock::time_point times[kNumMarks];
};

DeviceCount CountDevices() { return {1, ""}; }

Device::Device(int ordinal)
    : name_("emulated"),
      ordinal_(ordinal),
      compute_capability_(80),
      num_sms_(3),
      shared_per_sm_(228 << 10),
      shared_per_block_(227 << 10),
      marks_(std::make_unique<Marks>()) {
  simt::LoadedKernels().clear();
}
Device::~Device() = default;

int64_t Device::free_bytes() const { return kFreeBytes; }

DeviceMemory Device::Allocate(int64_t bytes, const std::string& purpose) {
  if (bytes > kFreeBytes) Fail("{}: {} bytes are missing", purpose, bytes - kFreeBytes);
  return bytes == 0 ? DeviceMemory() : Registered(bytes);
}
DeviceMemory Device::AllocateHost(int64_t bytes, const std::string&) {
  return bytes == 0 ? DeviceMemory() : Registered(bytes);
}

void Device::CopyToDevice(void* to, const void* from, int64_t bytes) { SubmitCopy(to, from, bytes); }
void Device::CopyToHost(void* to, const void* from, int64_t bytes) { SubmitCopy(to, from, bytes); }
void Device::SetZero(void* to, int64_t bytes) {
  simt::Submit([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
}

void Device::SetMark(int mark) { marks_->times[mark] = Clock::now(); }
bool Device::Reached(int) { return true; }
void Device::Await(int) {}
double Device::SecondsBetween(int earlier, int later) {
  return std::chrono::duration<double>(marks_->times[later] - marks_->times[earlier]).count();
}
void Device::Synchronize() {}

std::unique_ptr<DeviceGraph> Device::Capture(const std::function<void()>& body) {
  auto graph = std::make_unique<EmulatedGraph>();
  simt::Recording() = &graph->work;
  try {
    body();
  } catch (...) {
    simt::Recording() = nullptr;
    throw;
  }
  simt::Recording() = nullptr;
  return graph;
}

void Device::Launch(const DeviceGraph& graph) {
  for (const simt::Work& work : static_cast<const EmulatedGraph&>(graph).work) work();
}

}  // namespace quire
