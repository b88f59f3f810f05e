#include "comm/collective/mpi_bootstrap.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "comm/collective/shared_memory.h"
#include "comm/error.h"

namespace quire {

namespace {

/// Between hosts: everything is gathered and every rank adds in rank order, so that the sums are bit-equal everywhere
/// (MPI_Allreduce leaves the order to the library).
class MpiCollective : public Collective {
 public:
  MpiCollective(Rank rank, int size) : rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(std::span<float> data) override {
    parts_.resize(data.size() * static_cast<size_t>(size_));
    const int count = static_cast<int>(data.size());
    MPI_Allgather(data.data(), count, MPI_FLOAT, parts_.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
    std::copy_n(parts_.begin(), data.size(), data.begin());
    for (size_t other = 1; other < static_cast<size_t>(size_); ++other) {
      const float* part = parts_.data() + other * data.size();
      for (size_t i = 0; i < data.size(); ++i) data[i] += part[i];
    }
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

  void Abort() override {}  // a lost peer ends the whole MPI job; see comm/PROTOCOL.md

 private:
  Rank rank_;
  int size_;
  std::vector<float> parts_;
};

/// A name no other run uses; rank 0 draws it and all ranks learn it.
std::string AgreeOnName(Rank rank) {
  std::array<char, 32> name{};
  if (rank == 0) {
    std::random_device entropy;
    fmt::format_to_n(name.data(), name.size() - 1, "/quire.{:08x}{:08x}", entropy(), entropy());
  }
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return name.data();
}

}  // namespace

std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size) {
  return std::make_unique<MpiCollective>(rank, size);
}

MpiBootstrap::MpiBootstrap() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    Fail("MPI cannot be initialised with thread support");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
}

MpiBootstrap::~MpiBootstrap() { MPI_Finalize(); }

std::unique_ptr<Collective> MpiBootstrap::MakeCollective() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  int on_this_host = 0;
  MPI_Comm_size(host, &on_this_host);
  MPI_Comm_free(&host);
  int fewest = 0;
  MPI_Allreduce(&on_this_host, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (fewest < world_size_) return MakeMpiCollective(rank_, world_size_);

  const std::string name = AgreeOnName(rank_);
  std::shared_ptr<void> memory;
  if (rank_ == 0) memory = CreateArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != 0) memory = OpenArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) UnlinkArena(name);
  return std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), world_size_), rank_, memory);
}

}  // namespace quire
