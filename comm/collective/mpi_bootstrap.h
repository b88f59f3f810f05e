#pragma once

#include <memory>

#include "comm/collective/collective.h"

namespace quire {

/// Collectives by MPI alone, for ranks on several hosts. Between MPI_Init and MPI_Finalize, one thread.
std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size);

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

  /// Collective call: shared memory when every rank is on this host, MPI otherwise.
  std::unique_ptr<Collective> MakeCollective();

 private:
  Rank rank_ = 0;
  int world_size_ = 1;
};

}  // namespace quire
