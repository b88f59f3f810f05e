#include "comm/collective/mpi_collective.h"

#include <mpi.h>

#include <climits>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/add_parts.h"

namespace quire {

namespace {

/// Gathers all parts on every rank and adds them in rank order, so that the sums are bit-equal everywhere
/// (MPI_Allreduce leaves the order to the library).
class MpiCollective : public Collective {
 public:
  MpiCollective(Rank rank, int size) : rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceAdd(std::span<const float> part, std::span<float> total) override {
    parts_.resize(part.size() * static_cast<size_t>(size_));
    const int count = static_cast<int>(part.size());
    MPI_Allgather(part.data(), count, MPI_FLOAT, parts_.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
    AddParts(
        size_, [&](Rank rank) { return parts_.data() + static_cast<size_t>(rank) * part.size(); }, total);
  }

  void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) override {
    std::vector<int> sizes(counts.begin(), counts.end()), offsets;
    int offset = 0;
    for (const int bytes : sizes) {
      offsets.push_back(offset);
      offset += bytes;
    }
    MPI_Allgatherv(in.data(), static_cast<int>(in.size()), MPI_BYTE, out.data(), sizes.data(), offsets.data(), MPI_BYTE,
                   MPI_COMM_WORLD);
  }

  void Abort() override {}  // a lost rank ends the whole MPI job; see comm/PROTOCOL.md

 private:
  Rank rank_;
  int size_;
  std::vector<float> parts_;
};

/// In the leaders' communicator, a leader's rank equals its host's number, because both follow the order of the
/// leaders' ranks.
class MpiLeaderExchange : public LeaderExchange {
 public:
  explicit MpiLeaderExchange(MPI_Comm leaders) : leaders_(leaders) {}

  void Begin(std::byte* all, const std::vector<int>& sizes, const std::vector<int>& offsets) override {
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, sizes.data(), offsets.data(), MPI_BYTE, leaders_, &request_);
  }

  bool Done() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

 private:
  MPI_Comm leaders_;  // MPI_Finalize frees it: MPI_Comm_free is a collective call, which a lost rank would not join
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Carries messages between the stages of a pipeline over MPI; messages from one rank to another arrive in order. A
/// waiting call yields its core to ranks that compute, because MPI's own waits would keep the core busy for as long as
/// another stage computes.
class MpiStageLink final : public StageLink {
 public:
  MpiStageLink(GroupCut cut, Rank rank)
      : cut_(std::move(cut)), stage_(cut_.StageOf(rank)), place_(cut_.PlaceOf(rank)) {}

  int stage() const override { return stage_; }
  int num_stages() const override { return cut_.num_stages(); }

  void Send(int to, std::span<const std::byte> bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(bytes.data(), CountOf(bytes), MPI_BYTE, cut_.RankAt(to, place_), kTag, MPI_COMM_WORLD, &request);
    Await(request);
  }

  bool HasBytes(int from) override {
    int has = 0;
    MPI_Iprobe(cut_.RankAt(from, place_), kTag, MPI_COMM_WORLD, &has, MPI_STATUS_IGNORE);
    return has != 0;
  }

  void Receive(int from, std::span<std::byte> bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(bytes.data(), CountOf(bytes), MPI_BYTE, cut_.RankAt(from, place_), kTag, MPI_COMM_WORLD, &request);
    Await(request);
  }

 private:
  static constexpr int kTag = 1;

  static int CountOf(std::span<const std::byte> bytes) {
    QUIRE_CHECK(bytes.size() <= INT_MAX, "{} bytes in one message", bytes.size());
    return static_cast<int>(bytes.size());
  }

  static void Await(MPI_Request& request) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    for (StagePatience patience; done == 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) patience.Pause();
  }

  GroupCut cut_;
  int stage_, place_;
};

}  // namespace

std::unique_ptr<StageLink> MakeMpiStageLink(const GroupCut& cut, Rank rank) {
  return std::make_unique<MpiStageLink>(cut, rank);
}

std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size) {
  return std::make_unique<MpiCollective>(rank, size);
}

std::unique_ptr<LeaderExchange> MakeMpiLeaderExchange(bool leads, int subgroup) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm leaders = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, leads ? subgroup : MPI_UNDEFINED, rank, &leaders);
  return leads ? std::make_unique<MpiLeaderExchange>(leaders) : nullptr;
}

}  // namespace quire
