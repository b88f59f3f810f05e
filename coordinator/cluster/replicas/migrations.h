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

/// Totals of finished moves.
struct MigrationCounts {
  int64_t with_blocks = 0;  // requests that took computed blocks along
  int64_t bare = 0;         // requests without blocks: no token was computed yet, or all are computed again
  int64_t failed = 0;       // bare moves after a transfer of blocks broke off
  int64_t bytes = 0;        // block data sent, summed over all ranks
  double seconds = 0;       // seconds of completed transfers, from the order to send on
};

/// Moves requests between replicas on any hosts. A request's blocks go from the workers of one group to the workers of
/// the other, from each rank to the ranks that hold its heads there (comm/collective/block_link.h), while both groups
/// compute:
///   1. the target reserves blocks and its workers open endpoints;
///   2. the source's workers send the blocks;
///   3. when all target ranks have everything, the target's engine adopts the request.
/// MigrationWay::kDevice copies the full blocks of one sequence while the source still computes it; then the request
/// leaves, finds the blocks in the target's prefix cache, and recomputes the few tokens after them. MigrationWay::kHost
/// takes the request out before the copy; it arrives swapped out. If blocks cannot move (WhyBlocksStay, a lost group, a
/// broken link), the request moves alone and is recomputed. No token is lost, repeated or changed, because sampling
/// depends only on request and position. Blocks stay reserved until the transfer has ended on every rank.
class Migrations {
 public:
  explicit Migrations(std::vector<Replica*> replicas) : replicas_(std::move(replicas)) {}

  /// Starts to move a request, if replica `from` has it. Ignores requests that are moving.
  void Move(RequestId id, int from, int to);
  bool moving(RequestId id) const;

  // Call the following functions on the replica's engine thread.
  void OnReport(int replica, Rank rank, const BlocksReport& report);
  /// Called when the replica's workers were just restarted, or were given up.
  void OnEpochLost(int replica);
  /// Called in every round: cancels transfers whose request has ended or whose client has disconnected.
  void DropAbandoned(int replica, const Engine& engine);
  /// Called when the replica's workers are given up or take long to restart. Sends its requests to other replicas; if
  /// no replica serves, the requests stay.
  void Empty(int replica, Engine& engine);

  /// Drops the requests in transit. Afterwards no request moves.
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
  /// Posts the request to the engine of `to`. If the ticket is not 0, that engine holds the request's blocks under it.
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
  std::set<std::string> told_;                          // logged reasons why blocks stay
  std::map<std::pair<int, int>, double> broken_until_;  // replica pair, lower first -> time until which no blocks move
  std::set<std::pair<int, int>> by_host_;               // pairs of replicas whose GPUs failed to reach each other
  bool cleared_ = false;
};

}  // namespace quire
