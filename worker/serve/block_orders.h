#pragma once

#include "comm/wire/messages.h"
#include "worker/model/block_cut.h"
#include "worker/serve/block_courier.h"
#include "worker/serve/step_executor.h"

namespace quire {

/// True for the kinds of frames by which the coordinator orders transfers of KV blocks between groups, or frees blocks.
bool IsBlockOrder(FrameKind kind);

/// Executes one order: takes blocks from other workers, gives blocks to them, stops a transfer, or returns the memory
/// of blocks to the system. Earlier and later steps are unaffected. The executor must be idle.
void FollowBlockOrder(const Frame& frame, StepExecutor& executor, BlockCuts& cuts, BlockCourier& courier);

}  // namespace quire
