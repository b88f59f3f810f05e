#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/base/group_cut.h"
#include "comm/collective/collective.h"
#include "comm/collective/stage_link.h"

namespace quire {

/// Keeps MPI initialised for the life of a worker. The ranks of one epoch find each other through MPI. MPI starts the
/// ranks and moves data between hosts. The coordinator decides which ranks belong to the group; MPI is never asked
/// which ranks are alive.
class MpiBootstrap {
 public:
  MpiBootstrap();
  ~MpiBootstrap();
  MpiBootstrap(const MpiBootstrap&) = delete;
  MpiBootstrap& operator=(const MpiBootstrap&) = delete;

  Rank rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// Returns this rank's index among the ranks of this host, in their order: 0 .. local_size() - 1.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  std::string host_name() const;

  // The following are collective calls: every rank must call them.

  /// Returns rank 0's bytes on every rank. The argument of other ranks is ignored.
  std::string Broadcast(std::string bytes) const;
  /// Returns the bytes of all ranks in rank order, on every rank. Sizes may differ.
  std::vector<std::string> GatherAll(const std::string& bytes) const;
  void Barrier() const;
  /// Runs MPI's own all-reduce, in which the library chooses the order of sums; for comparison only.
  void LibraryAllReduceSum(std::span<float> data) const;

  /// Makes a collective for the ranks that pass the same `subgroup`: over shared memory when all of them are on one
  /// host, otherwise a hierarchical one.
  std::unique_ptr<Collective> MakeCollective(int subgroup = 0);
  /// Makes the link between this rank and the ranks that have the same index within the other stages: over shared
  /// memory when all these ranks are on one host, otherwise over MPI; null without a pipeline.
  std::unique_ptr<StageLink> MakeStageLink(const GroupCut& cut);
  /// Makes a collective that uses shared memory inside each host and MPI between hosts. host_of_rank numbers the hosts
  /// in the order of their first ranks.
  std::unique_ptr<Collective> MakeHierarchicalCollective(const std::vector<int>& host_of_rank);

 private:
  /// A subset of the ranks that includes this rank, in rank order.
  struct Subgroup {
    int number;
    std::vector<Rank> ranks;
    std::vector<int> hosts;  // host of each of these ranks; hosts are numbered from 0 in the order of their first ranks
    size_t self;             // this rank's index

    bool on_one_host() const { return std::ranges::max(hosts) == 0; }
  };
  std::vector<int> HostOfEveryRank() const;
  Subgroup FindSubgroup(int number, const std::vector<int>& host_of_rank) const;
  std::unique_ptr<Collective> MakeCollectiveOf(const Subgroup& group, bool hierarchical = false);
  /// Maps zeroed memory that `members` share: this rank and others of its host. Every rank must call this; a rank that
  /// passes 0 bytes takes no part.
  std::shared_ptr<void> ShareMemory(const std::vector<Rank>& members, size_t bytes) const;

  Rank rank_ = 0;
  int world_size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace quire
