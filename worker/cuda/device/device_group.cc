#include "worker/cuda/device/device_group.h"

#include <algorithm>
#include <atomic>

#include "comm/base/error.h"
#include "worker/cuda/device/one_shot_threshold.h"

namespace quire {

namespace {

constexpr auto kMeasuringDeadline = std::chrono::seconds(30);

}  // namespace

DeviceGroup::DeviceGroup(const MpiBootstrap& mpi, DeviceGroupOptions options) : hosts_(mpi.GatherAll(mpi.host_name())) {
  const int size = mpi.world_size();
  PeerMemory memory;
  if (!options.one_shot || size == 1) {
    why_ = size == 1 ? "one rank" : "one-shot is switched off";
  } else if (size > kernels::kMaxOneShotRanks) {
    why_ = fmt::format("{} ranks, one-shot takes at most {}", size, kernels::kMaxOneShotRanks);
  } else {
    const auto bytes = static_cast<size_t>(kernels::OneShotArenaBytes(size, kOneShotCapacity));
    memory = ShareDeviceMemory(mpi, bytes, kernels::kOneShotControlWords);
    why_ = memory.why_not;
  }
  if (!memory.arenas.empty()) {
    group_ = {mpi.rank(), size, kOneShotCapacity, {}, memory.control};
    std::copy(memory.arenas.begin(), memory.arenas.end(), group_.arenas);
    options.nccl.on_failure = [control = memory.control, then = options.nccl.on_failure] {
      std::atomic_ref(*control).store(1, std::memory_order_release);
      then();
    };
  }
  library_ = MakeNcclCollective(mpi, options.nccl);
  if (!has_one_shot()) return;
  // Ranks that share a device run one after another, so measurements would mean nothing.
  const bool alone = RanksOnThisDevice(mpi) == 1;
  threshold_ = options.measure && alone ? MeasureThreshold(mpi) : DefaultOneShotThreshold(size);
  why_ = options.measure && alone ? "measured" : "from published times";
}

int64_t DeviceGroup::MeasureThreshold(const MpiBootstrap& mpi) {
  void* data = AllocateOnDevice(kOneShotCapacity);
  void* stream = MakeCudaStream();
  std::vector<SumTiming> timings;
  library_->ExpectDoneBy(Clock::now() + kMeasuringDeadline);
  for (int64_t bytes = 8 << 10; bytes <= kOneShotCapacity; bytes *= 2) {
    const int64_t count = bytes / 2;
    const auto one_shot = [&] { OneShotSum(data, count, NumberType::kBF16, stream); };
    const auto library = [&] { library_->AllReduceSum(data, count, NumberType::kBF16, stream); };
    one_shot();
    library();
    WaitForStream(stream);
    timings.push_back({bytes, MedianMicros(15, 10, stream, one_shot), MedianMicros(15, 10, stream, library)});
    Check();
  }
  library_->ExpectDoneBy(Clock::time_point::max());
  // All ranks must use the same threshold.
  return std::stoll(mpi.Broadcast(std::to_string(OneShotThreshold(timings))));
}

void DeviceGroup::OneShotSum(void* data, int64_t count, NumberType type, void* stream) {
  kernels::OneShotAllReduce({stream}, {group_, type, data, data, count});
}

void DeviceGroup::AllReduceSum(void* data, int64_t count, NumberType type, void* stream) {
  if (!GoesInOneShot(count * ByteSize(type))) return library_->AllReduceSum(data, count, type, stream);
  Check();
  OneShotSum(data, count, type, stream);
}

void DeviceGroup::AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) {
  library_->AllGather(in, out, bytes_per_rank, stream);
}

void DeviceGroup::AllReduceRmsNorm(void* partial, kernels::RmsNormParams norm, void* stream) {
  norm.delta = partial;
  const int64_t count = norm.num_tokens * norm.hidden;
  if (GoesInOneShot(count * ByteSize(norm.dtype))) {
    Check();
    return kernels::OneShotAllReduceRmsNorm({stream}, {group_, norm});
  }
  library_->AllReduceSum(partial, count, norm.dtype, stream);
  kernels::RmsNorm({stream}, norm);
}

void DeviceGroup::Check() {
  // The one-shot kernel is checked before NCCL, because a one-shot kernel that gave up tells for which rank it was
  // waiting.
  for (Rank peer = 0; peer < group_.size; ++peer) {
    if (std::atomic_ref(group_.control[1 + peer]).load(std::memory_order_acquire) == 0) continue;
    const auto host = [&](Rank r) { return hosts_[static_cast<size_t>(r)]; };
    throw CollectiveAborted(
        fmt::format("rank {} of {} on {}: a one-shot all-reduce waited for rank {} on {} in vain: look at what that "
                    "rank said first",
                    rank(), size(), host(rank()), peer, host(peer)));
  }
  library_->Check();
}

std::string DeviceGroup::Describe() const {
  if (threshold_ == 0) return fmt::format("{} for everything ({})", library_->Describe(), why_);
  return fmt::format("{}, one-shot sums up to {} KiB ({})", library_->Describe(), threshold_ >> 10, why_);
}

}  // namespace quire
