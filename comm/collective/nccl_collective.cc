#include "comm/collective/nccl_collective.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "comm/base/error.h"
#include "comm/collective/nccl_communicator.h"
#include "comm/collective/watchdog.h"

namespace quire {

namespace {

using Clock = DeviceCollective::Clock;

constexpr auto kProbeInterval = std::chrono::milliseconds(100);

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

/// Returns this rank, all hosts and NCCL's version for error texts: "rank 0 of 2 on a (NCCL 2.28.9, rank 1 on b)".
std::string WhereOf(const MpiBootstrap& mpi) {
  const std::vector<std::string> hosts = mpi.GatherAll(mpi.host_name());
  std::string where =
      fmt::format("rank {} of {} on {} ({}", mpi.rank(), mpi.world_size(), mpi.host_name(), NcclVersionText());
  for (Rank peer = 0; peer < mpi.world_size(); ++peer) {
    if (peer != mpi.rank()) where += fmt::format(", rank {} on {}", peer, hosts[static_cast<size_t>(peer)]);
  }
  return where + ")";
}

class NcclCollective : public DeviceCollective {
 public:
  NcclCollective(const MpiBootstrap& mpi, const NcclOptions& options, const ncclUniqueId& id)
      : rank_(mpi.rank()),
        size_(mpi.world_size()),
        communicator_(id, rank_, size_,
                      {.who = WhereOf(mpi),
                       .name = options.name,
                       .init_deadline = options.init_deadline,
                       .call_deadline = options.call_deadline,
                       .on_failure = options.on_failure}),
        watchdog_(
            kProbeInterval, [this] { return communicator_.Probe(); },
            [this](const std::string& why) { communicator_.Fail(why); }) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(void* data, int64_t count, NumberType type, void* stream) override {
    communicator_.Call(fmt::format("ncclAllReduce of {} elements", count), [&](ncclComm_t comm) {
      return ncclAllReduce(data, data, static_cast<size_t>(count), NcclType(type), ncclSum, comm,
                           static_cast<cudaStream_t>(stream));
    });
  }

  void AllGather(const void* in, void* out, int64_t bytes_per_rank, void* stream) override {
    communicator_.Call(fmt::format("ncclAllGather of {} bytes per rank", bytes_per_rank), [&](ncclComm_t comm) {
      return ncclAllGather(in, out, static_cast<size_t>(bytes_per_rank), ncclInt8, comm,
                           static_cast<cudaStream_t>(stream));
    });
  }

  void ExpectDoneBy(Clock::time_point deadline) override { watchdog_.ExpectDoneBy(deadline); }
  void Check() override { communicator_.Check(); }
  void Abort() override { communicator_.Fail("aborted by this rank"); }
  std::string Describe() const override { return NcclVersionText(); }

 private:
  const Rank rank_;
  const int size_;
  NcclCommunicator communicator_;
  Watchdog watchdog_;  // destroyed before the communicator that it probes
};

}  // namespace

std::unique_ptr<DeviceCollective> MakeNcclCollective(const MpiBootstrap& mpi, const NcclOptions& options) {
  // If rank 0 gets no id, it broadcasts an empty text, so that all ranks fail.
  std::string problem = "see rank 0";
  const std::string id = mpi.Broadcast(mpi.rank() == 0 ? NewNcclId(problem) : "");
  if (id.empty()) Fail("rank 0: {}", problem);
  return std::make_unique<NcclCollective>(mpi, options, NcclIdOf(id));
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
