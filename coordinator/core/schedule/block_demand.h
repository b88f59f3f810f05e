#pragma once

#include <cstdint>
#include <span>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/request.h"
#include "coordinator/core/schedule/scheduler_limits.h"

namespace quire {

/// Computes how many blocks a request holds, will take soon, or needs in order to run. Changes nothing.
class BlockDemand {
 public:
  BlockDemand(const SchedulerLimits& limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {}

  /// Blocks that a request needs at its full length.
  int64_t AtLongest(int num_prompt_tokens, int max_tokens, int n) const;
  /// Free blocks that a waiting request needs in order to run with all its known tokens.
  int ToRun(Request& request) const;
  /// Blocks that a running request will take soon.
  int Soon(const Request& request) const;
  /// Upper bound of the blocks that one step can take for the running requests, copies included.
  int MostToGrow(std::span<Request* const> running) const;
  /// Distinct blocks of the request, on the device or swapped out.
  static int Held(const Request& request);

 private:
  int Ahead(int entries, int held, int num_tokens) const;
  int Ahead(const Sequence& sequence, int num_tokens, int shared = 0) const;
  int ToBegin(Request& request) const;
  int ToComeBack(const Request& request) const;

  const SchedulerLimits& limits_;
  BlockManager& blocks_;
};

}  // namespace quire
