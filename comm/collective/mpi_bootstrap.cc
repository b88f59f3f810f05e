#include "comm/collective/mpi_bootstrap.h"

#include <mpi.h>

#include <random>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/collective/hierarchical.h"
#include "comm/collective/mpi_collective.h"
#include "comm/collective/shared_memory.h"

namespace quire {

namespace {

/// Makes a name that no other run uses.
std::string FreshName() {
  std::random_device entropy;
  return fmt::format("/quire.{:08x}{:08x}", entropy(), entropy());
}

}  // namespace

MpiBootstrap::MpiBootstrap() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    Fail("MPI cannot be initialised with thread support");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  MPI_Comm_free(&host);
}

MpiBootstrap::~MpiBootstrap() { MPI_Finalize(); }

std::string MpiBootstrap::host_name() const { return OwnHostName(); }

std::string MpiBootstrap::Broadcast(std::string bytes) const {
  uint64_t size = bytes.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  bytes.resize(size);
  MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD);
  return bytes;
}

std::vector<std::string> MpiBootstrap::GatherAll(const std::string& bytes) const {
  const int size = static_cast<int>(bytes.size());
  std::vector<int> sizes(static_cast<size_t>(world_size_)), offsets;
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (const int s : sizes) {
    offsets.push_back(total);
    total += s;
  }
  std::string all(static_cast<size_t>(total), '\0');
  MPI_Allgatherv(bytes.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, MPI_COMM_WORLD);
  std::vector<std::string> parts;
  for (size_t r = 0; r < sizes.size(); ++r) {
    parts.push_back(all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(sizes[r])));
  }
  return parts;
}

void MpiBootstrap::Barrier() const { MPI_Barrier(MPI_COMM_WORLD); }

void MpiBootstrap::LibraryAllReduceSum(std::span<float> data) const {
  MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

std::unique_ptr<Collective> MpiBootstrap::MakeCollective() {
  int fewest = 0;
  MPI_Allreduce(&local_size_, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (fewest < world_size_) return MakeHierarchicalCollective(HostOfEveryRank());

  const std::string name = Broadcast(rank_ == 0 ? FreshName() : "");
  std::shared_ptr<void> memory;
  if (rank_ == 0) memory = CreateArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != 0) memory = OpenArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) UnlinkArena(name);
  return std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), world_size_), rank_, memory);
}

std::vector<int> MpiBootstrap::HostOfEveryRank() const {
  // The number of a host follows from its first rank.
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  int leader = rank_;
  MPI_Bcast(&leader, 1, MPI_INT, 0, host);
  MPI_Comm_free(&host);
  std::vector<int> leaders(static_cast<size_t>(world_size_)), numbers(leaders.size());
  MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int hosts = 0;
  for (Rank r = 0; r < world_size_; ++r) {
    const auto i = static_cast<size_t>(r);
    numbers[i] = leaders[i] == r ? hosts++ : numbers[static_cast<size_t>(leaders[i])];
  }
  return numbers;
}

std::unique_ptr<Collective> MpiBootstrap::MakeHierarchicalCollective(const std::vector<int>& host_of_rank) {
  HostLayout layout(host_of_rank);
  const int host = layout.host_of(rank_);
  const Rank leader = layout.ranks_of(host).front();
  const std::vector<std::string> names = GatherAll(leader == rank_ ? FreshName() : "");
  const std::string& name = names[static_cast<size_t>(leader)];
  const size_t bytes = HostArena::BytesFor(world_size_);
  std::shared_ptr<void> memory;
  if (leader == rank_) memory = CreateSharedMemory(name, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (leader != rank_) memory = OpenSharedMemory(name, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (leader == rank_) UnlinkArena(name);
  auto exchange = MakeMpiLeaderExchange(leader == rank_);  // collective call
  return std::make_unique<HierarchicalCollective>(HostArena(memory.get(), world_size_), std::move(layout), rank_,
                                                  std::move(exchange), memory);
}

}  // namespace quire
