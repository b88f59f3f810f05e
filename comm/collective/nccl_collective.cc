#include "comm/collective/nccl_collective.h"

#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "comm/base/error.h"
#include "comm/collective/watchdog.h"

namespace quire {

namespace {

using Clock = DeviceCollective::Clock;

constexpr auto kProbeInterval = std::chrono::milliseconds(100);
constexpr auto kFinalizeDeadline = std::chrono::seconds(5);

ncclDataType_t NcclType(NumberType type) {
  switch (type) {
    case NumberType::kF32:
      return ncclFloat32;
    case NumberType::kF16:
      return ncclFloat16;
    case NumberType::kBF16:
      return ncclBfloat16;
    default:
      QUIRE_CHECK(false, "a sum of {} numbers", LayoutOf(type).name);
  }
}

std::string VersionText() {
  int version = 0;
  ncclGetVersion(&version);  // 2.28.9 is 22809
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// What to do about an error, as far as its kind tells.
std::string Remedy(ncclResult_t result, const std::string& words) {
  if (words.find("Duplicate GPU") != words.npos) {
    return "give every rank a GPU of its own (CUDA_VISIBLE_DEVICES, fewer ranks per host)";
  }
  switch (result) {
    case ncclUnhandledCudaError:
      return "a CUDA call failed, perhaps because of an earlier kernel; is the driver (nvidia-smi) new enough for this "
             "CUDA?";
    case ncclSystemError:
      return "a system call failed: is /dev/shm large enough (docker run --shm-size=1g), does NCCL_SOCKET_IFNAME name "
             "an interface that all hosts reach each other by? NCCL_DEBUG=WARN says more";
    case ncclRemoteError:
      return "a peer ended or its link broke: look at what the other ranks said first";
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return "is NCCL the same version on all hosts? NCCL_DEBUG=WARN says more";
    case ncclInProgress:
      return "a peer did not come: is a firewall between the hosts, does NCCL_SOCKET_IFNAME name the right interface?";
    default:
      return "NCCL_DEBUG=WARN says more";
  }
}

class NcclCollective : public DeviceCollective {
 public:
  NcclCollective(const MpiBootstrap& mpi, const NcclOptions& options, const ncclUniqueId& id)
      : rank_(mpi.rank()), size_(mpi.world_size()), hosts_(mpi.GatherAll(mpi.host_name())), options_(options) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = options_.name.c_str();
    Settle("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, size_, id, rank_, &config),
           Clock::now() + options_.init_deadline);
    watchdog_.emplace(
        kProbeInterval, [this] { return Probe(); }, [this](const std::string& why) { Fail(why); });
  }

  ~NcclCollective() override {
    watchdog_.reset();
    ncclComm_t comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return;
    ncclResult_t result = ncclCommFinalize(comm);
    for (const auto deadline = Clock::now() + kFinalizeDeadline; result == ncclInProgress && Clock::now() < deadline;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) break;
    }
    if (result == ncclSuccess) {
      ncclCommDestroy(comm);
    } else {
      AbortAside(comm);
    }
  }

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) override {
    Call(fmt::format("ncclAllReduce of {} elements", count), [&](ncclComm_t comm) {
      return ncclAllReduce(data, data, static_cast<size_t>(count), NcclType(type), ncclSum, comm,
                           static_cast<cudaStream_t>(stream));
    });
  }

  void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) override {
    Call(fmt::format("ncclAllGather of {} bytes per rank", bytes_per_rank), [&](ncclComm_t comm) {
      return ncclAllGather(in, out, static_cast<size_t>(bytes_per_rank), ncclInt8, comm,
                           static_cast<cudaStream_t>(stream));
    });
  }

  void ExpectDoneBy(Clock::time_point deadline) override { watchdog_->ExpectDoneBy(deadline); }

  void Check() override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CollectiveAborted(failure_);
  }

  void Abort() override { Fail("aborted by this rank"); }

  std::string Describe() const override { return VersionText(); }

 private:
  /// Queues a call and waits until NCCL has taken it.
  template <class Start>
  void Call(const std::string& what, Start start) {
    ncclResult_t result;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) throw CollectiveAborted(failure_);
      result = start(comm_);
    }
    Settle(what, result, Clock::now() + options_.call_deadline);
  }

  /// Waits while NCCL says "in progress". Between looks the watchdog can get at the communicator.
  void Settle(const std::string& what, ncclResult_t result, Clock::time_point deadline) {
    while (result == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) throw CollectiveAborted(failure_);
      if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
    }
    if (result == ncclSuccess) return;
    Fail(Words(what, result));
    const std::lock_guard lock(mutex_);
    throw CollectiveAborted(failure_);
  }

  std::string Probe() {
    const std::lock_guard lock(mutex_);
    ncclResult_t result = ncclSuccess;
    if (!failure_.empty()) return "";
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
    return result == ncclSuccess || result == ncclInProgress ? "" : Words("asynchronous error", result);
  }

  static std::string Words(const std::string& what, ncclResult_t result) {
    const char* last = ncclGetLastError(nullptr);
    const std::string words = last != nullptr ? last : "";
    return fmt::format("{}: {}{}{}; {}", what,
                       result == ncclInProgress ? "no answer in time" : ncclGetErrorString(result),
                       words.empty() ? "" : ": ", words, Remedy(result, words));
  }

  /// The first failure counts: it is remembered and the communicator is given up, by which the others learn of it.
  void Fail(const std::string& why) {
    std::string where =
        fmt::format("rank {} of {} on {} ({}", rank_, size_, hosts_[static_cast<size_t>(rank_)], VersionText());
    for (Rank peer = 0; peer < size_; ++peer) {
      if (peer != rank_) where += fmt::format(", rank {} on {}", peer, hosts_[static_cast<size_t>(peer)]);
    }
    bool first = false;
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      first = failure_.empty();
      if (first) failure_ = where + "): " + why;
      comm = std::exchange(comm_, nullptr);
    }
    if (comm != nullptr) AbortAside(comm);
    if (first) options_.on_failure();
  }

  /// ncclCommAbort may itself wait for peers or kernels; nobody here may wait for it. The end of the process ends it.
  static void AbortAside(ncclComm_t comm) {
    std::thread([comm] { ncclCommAbort(comm); }).detach();
  }

  const Rank rank_;
  const int size_;
  const std::vector<std::string> hosts_;
  const NcclOptions options_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once given up
  std::string failure_;        // empty while all is well
  std::optional<Watchdog> watchdog_;
};

}  // namespace

std::unique_ptr<DeviceCollective> MakeNcclCollective(const MpiBootstrap& mpi, const NcclOptions& options) {
  // An id that could not be had travels as an empty text, so that all ranks fail together.
  ncclUniqueId id{};
  std::string bytes;
  if (mpi.rank() == 0 && ncclGetUniqueId(&id) == ncclSuccess) bytes.assign(id.internal, sizeof(id.internal));
  bytes = mpi.Broadcast(std::move(bytes));
  if (bytes.size() != sizeof(id.internal)) {
    Fail("rank 0: ncclGetUniqueId failed: {}; does NCCL_SOCKET_IFNAME name an interface of this host?",
         mpi.rank() == 0 ? ncclGetLastError(nullptr) : "see rank 0");
  }
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return std::make_unique<NcclCollective>(mpi, options, id);
}

void PrepareForSharedDevice(Rank rank) {
  ::setenv("NCCL_HOSTID", fmt::format("quire-rank-{}", rank).c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_NET", "Socket", 1);
  ::setenv("NCCL_P2P_DISABLE", "1", 1);
  ::setenv("NCCL_SHM_DISABLE", "1", 1);
  ::setenv("NCCL_MAX_NCHANNELS", "2", 1);  // small grids: the ranks' kernels must be resident together
}

}  // namespace quire
