#pragma once

#include "comm/wire/messages.h"
#include "worker/model/block_cut.h"
#include "worker/serve/block_courier.h"
#include "worker/serve/step_executor.h"

namespace quire {

/// True for what the coordinator says about KV blocks of other groups.
bool IsBlockOrder(FrameKind kind);

/// Does it: blocks go to other workers or come from them, which concerns nothing under way, and nothing that comes
/// later. The executor is idle.
void FollowBlockOrder(const Frame& frame, StepExecutor& executor, BlockCuts& cuts, BlockCourier& courier);

}  // namespace quire
