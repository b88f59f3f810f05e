#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/collective/collective.h"

namespace quire {

/// MPI for the life of a worker: how the ranks of one epoch find each other. Membership is the coordinator's business;
/// MPI is used to start up and to move data between hosts, and is never asked who is alive.
class MpiBootstrap {
 public:
  MpiBootstrap();
  ~MpiBootstrap();
  MpiBootstrap(const MpiBootstrap&) = delete;
  MpiBootstrap& operator=(const MpiBootstrap&) = delete;

  Rank rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// Among the ranks of this host, which keep their order: 0 .. local_size() - 1.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  std::string host_name() const;

  // Collective calls, all of them.

  /// Rank 0's bytes, on every rank; what the others pass is ignored.
  std::string Broadcast(std::string bytes) const;
  /// The ranks' bytes in rank order, on every rank. Sizes may differ.
  std::vector<std::string> GatherAll(const std::string& bytes) const;
  void Barrier() const;
  /// MPI's own all-reduce, whose order of sums is the library's: to compare with.
  void LibraryAllReduceSum(std::span<float> data) const;

  /// Shared memory when every rank is on this host; otherwise that inside each host, and MPI between them.
  std::unique_ptr<Collective> MakeCollective();
  /// The second of them, for ranks that are on the given hosts (numbered in the order of their first ranks).
  std::unique_ptr<Collective> MakeHierarchicalCollective(const std::vector<int>& host_of_rank);

 private:
  std::vector<int> HostOfEveryRank() const;

  Rank rank_ = 0;
  int world_size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace quire
