#include "comm/collective/mpi_bootstrap.h"

#include <mpi.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/collective/hierarchical.h"
#include "comm/collective/mpi_collective.h"
#include "comm/collective/shared_memory.h"
#include "comm/collective/shared_stage_link.h"

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

MpiBootstrap::Subgroup MpiBootstrap::FindSubgroup(int number, const std::vector<int>& host_of_rank) const {
  const std::vector<std::string> numbers = GatherAll(std::to_string(number));
  Subgroup found{number, {}, {}, 0};
  std::map<int, int> hosts;  // numbers of hosts in the group
  for (Rank rank = 0; rank < world_size_; ++rank) {
    if (numbers[static_cast<size_t>(rank)] != std::to_string(number)) continue;
    if (rank == rank_) found.self = found.ranks.size();
    found.ranks.push_back(rank);
    const int host = host_of_rank[static_cast<size_t>(rank)];
    found.hosts.push_back(hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
  }
  return found;
}

std::shared_ptr<void> MpiBootstrap::ShareMemory(const std::vector<Rank>& members, size_t bytes) const {
  const bool makes = bytes > 0 && members.front() == rank_;
  const std::vector<std::string> names = GatherAll(makes ? FreshName() : "");
  const std::string& name = names[static_cast<size_t>(members.front())];
  std::shared_ptr<void> memory;
  if (makes) memory = CreateSharedMemory(name, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!makes && bytes > 0) memory = OpenSharedMemory(name, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (makes) UnlinkArena(name);
  return memory;
}

std::unique_ptr<Collective> MpiBootstrap::MakeCollective(int subgroup) {
  return MakeCollectiveOf(FindSubgroup(subgroup, HostOfEveryRank()));
}

std::unique_ptr<Collective> MpiBootstrap::MakeHierarchicalCollective(const std::vector<int>& host_of_rank) {
  return MakeCollectiveOf(FindSubgroup(0, host_of_rank), true);
}

std::unique_ptr<Collective> MpiBootstrap::MakeCollectiveOf(const Subgroup& group, bool hierarchical) {
  const int size = static_cast<int>(group.ranks.size());
  const auto self = static_cast<Rank>(group.self);
  const bool one_host = group.on_one_host() && !hierarchical;
  std::vector<Rank> neighbours;  // ranks of the group on this host
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    if (group.hosts[i] == group.hosts[group.self]) neighbours.push_back(group.ranks[i]);
  }
  const auto memory = ShareMemory(neighbours, one_host ? SharedArena::BytesFor(size) : HostArena::BytesFor(size));
  const bool leads = !one_host && neighbours.front() == rank_;
  auto exchange = MakeMpiLeaderExchange(leads, group.number);  // collective call of all ranks
  if (one_host)
    return std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), size), self, memory, local_size_);
  return std::make_unique<HierarchicalCollective>(HostArena(memory.get(), size), HostLayout(group.hosts), self,
                                                  std::move(exchange), memory);
}

std::unique_ptr<StageLink> MpiBootstrap::MakeStageLink(const GroupCut& cut) {
  const int stages = cut.num_stages(), place = cut.PlaceOf(rank_), stage = cut.StageOf(rank_);
  if (stages == 1) return nullptr;
  const Subgroup column = FindSubgroup(place, HostOfEveryRank());
  const bool one_host = column.on_one_host();
  const auto memory = ShareMemory(column.ranks, one_host ? StageArena::BytesFor(stages) : 0);
  if (one_host) return std::make_unique<SharedStageLink>(StageArena(memory.get(), stages), stage, memory);
  return MakeMpiStageLink(cut, rank_);
}

std::vector<int> MpiBootstrap::HostOfEveryRank() const {
  // Hosts are numbered in the order of their first ranks.
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

}  // namespace quire
