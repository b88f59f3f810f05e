#pragma once

#include <cstdint>
#include <span>

#include "coordinator/core/blocks/block_manager.h"
#include "coordinator/core/request.h"
#include "coordinator/core/schedule/scheduler_limits.h"

namespace quire {

/// Computes how many blocks a request holds, will take soon, or needs in order to run. The functions change nothing.
class BlockDemand {
 public:
  BlockDemand(const SchedulerLimits& limits, BlockManager& blocks) : limits_(limits), blocks_(blocks) {}

  /// Returns the number of blocks that a request of n choices needs at its full length: the prompt, and max_tokens
  /// generated tokens for each choice.
  int64_t AtLongest(int num_prompt_tokens, int max_tokens, int n) const;
  /// Returns the number of free blocks that a waiting request needs in order to run with all its known tokens.
  int ToRun(Request& request) const;
  /// Returns the number of blocks that a running request will take for its known tokens and the next lookahead_tokens
  /// tokens of each sequence.
  int Soon(const Request& request) const;
  /// Returns an upper bound of the number of blocks that one step can allocate for the running requests, copies
  /// included.
  int MostToGrow(std::span<Request* const> running) const;
  /// Returns the number of distinct blocks of the request, on the device or on the host.
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
