#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/replicas/block_transfer.h"
#include "coordinator/cluster/replicas/replica.h"

namespace quire {

/// What became of moves so far.
struct MigrationCounts {
  int64_t with_blocks = 0;  // requests that took their blocks along
  int64_t bare = 0;         // requests that left nothing computed behind, or compute it again
  int64_t failed = 0;       // of the bare ones: a transfer of blocks broke off
  int64_t bytes = 0;        // of blocks, over all ranks
  double seconds = 0;       // that transfers which came to their end took, from the order to send on
};

/// Requests on their way from one replica to another, on any hosts. A request's blocks go from the workers of the one
/// group to those of the other, from each rank to those that have its heads there (comm/collective/block_link.h), while
/// both compute:
///   1. the destination sets blocks aside, and its workers open the way;
///   2. the workers of the source send the request's blocks;
///   3. when all ranks of the destination have everything, its engine takes the request in.
/// From pool to pool (MigrationWay::kDevice) go the full blocks of one sequence, while it is computed at the source;
/// then it leaves, finds them in the destination's prefix cache, and computes the few tokens after them again.
/// Everything else goes by the hosts' memory: the request leaves its engine at once, and arrives as swapped out. Where
/// blocks cannot go (WhyBlocksStay, a lost group, a link that breaks) the request goes alone, and what it had computed
/// is computed again. Either way no token is lost, repeated or changed: draws depend on the request and the position
/// alone. Until a transfer has ended on every rank, nobody else gets its blocks.
class Migrations {
 public:
  explicit Migrations(std::vector<Replica*> replicas) : replicas_(std::move(replicas)) {}

  /// Moves a request, if it is there. Does nothing to one that is on its way already.
  void Move(RequestId id, int from, int to);
  bool moving(RequestId id) const;

  // On the replica's engine thread:
  void OnReport(int replica, Rank rank, const BlocksReport& report);
  /// Its workers have just been started again, or never will be.
  void OnEpochLost(int replica);
  /// Now and then: who is gone, or whose client is, needs no blocks.
  void DropAbandoned(int replica, const Engine& engine);
  /// The replica is lost for good: its requests go to the others. Those that no other can serve stay.
  void Empty(int replica, Engine& engine);

  /// Drops the requests on their way. Nothing moves any more.
  void Clear();

  MigrationCounts counts() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Replica& at(int replica) const { return *replicas_[static_cast<size_t>(replica)]; }
  std::optional<MigrationWay> WayOf(const Lock&, const Request& request, const BlockTransfer& transfer);
  void Begin(RequestId id, int from, int to, Engine& engine);
  void Prepare(uint64_t ticket, Engine& engine);
  void Give(uint64_t ticket, Engine& engine);
  std::vector<BlockCopyPair> Take(const Lock& lock, uint64_t keep, BlockTransfer& transfer, Engine& engine);
  void Follow(uint64_t ticket, int to, Engine& engine);
  void GoBare(RequestId id, int to, Engine& engine);
  void PostBare(const BlockTransfer& transfer);
  /// The request goes to `to`'s engine, with the blocks under the ticket if that is not 0.
  void Deliver(const Lock& lock, std::unique_ptr<Request> request, int to, uint64_t ticket);
  void Arrive(RequestId id, int to, uint64_t ticket, Engine& engine);
  void Refuse(RequestId id, int to, uint64_t ticket, const std::string& reason);
  bool SendElsewhere(const Lock& lock, std::unique_ptr<Request>& request, const std::set<int>& except);
  void OnTaken(const Lock& lock, uint64_t ticket, BlockTransfer& transfer, Rank rank, const BlocksReport& report);
  void OnGiven(const Lock& lock, uint64_t ticket, BlockTransfer& transfer, const BlocksReport& report);
  void Fail(const Lock& lock, BlockTransfer& transfer);
  void Stay(const Lock& lock, BlockTransfer& transfer);
  void BreakOff(const Lock& lock, uint64_t ticket, BlockTransfer& transfer);
  void CallOff(const Lock& lock, uint64_t ticket, BlockTransfer& transfer);
  uint64_t NewTicket();
  void DropIfOver(const Lock& lock, uint64_t ticket);

  std::vector<Replica*> replicas_;
  mutable std::mutex mutex_;  // guards everything below
  std::map<uint64_t, BlockTransfer> transfers_;
  std::map<RequestId, std::unique_ptr<Request>> in_transit_;
  std::set<RequestId> moving_;
  MigrationCounts counts_;
  std::set<std::string> told_;                          // why blocks stay
  std::map<std::pair<int, int>, double> broken_until_;  // pairs of replicas, the lower one first
  std::set<std::pair<int, int>> by_host_;               // such that no GPU of the one reached one of the other's
  bool cleared_ = false;
};

}  // namespace quire
