#include "worker/serve/block_orders.h"

#include <utility>
#include <variant>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Throws Error unless a state is transferred in as many blocks as it takes, from or to a group of one rank.
void CheckState(const GroupCut& cut, size_t num_blocks, const StepExecutor& executor) {
  if (cut.num_ranks() != 1 || static_cast<int>(num_blocks) != executor.state_blocks())
    Fail("a state in {} blocks of {}, for {} ranks", num_blocks, executor.state_blocks(), cut.num_ranks());
}

BlockCourier::GiveOrder OrderOf(GiveBlocksMessage&& give, StepExecutor& executor, BlockCuts& cuts) {
  if (give.is_state) {
    CheckState(give.cut(), give.blocks.size(), executor);
    BlockCourier::GiveOrder order{give.ticket, give.epoch, executor.Lend(give.blocks, give.on_device), {}, true};
    order.destinations.push_back(
        {std::move(give.endpoints[0]), give.keys.empty() ? "" : std::move(give.keys[0]), cuts.State().given.here});
    return order;
  }
  const std::vector<BlockRuns>& runs = cuts.To(give.cut());
  executor.SwapOut(give.moves);
  BlockCourier::GiveOrder order{give.ticket, give.epoch, executor.Lend(give.blocks, give.on_device), {}};
  for (size_t rank = 0; rank < give.endpoints.size(); ++rank) {
    order.destinations.push_back(
        {std::move(give.endpoints[rank]), give.keys.empty() ? "" : std::move(give.keys[rank]), runs[rank]});
  }
  return order;
}

}  // namespace

bool IsBlockOrder(FrameKind kind) {
  return kind == FrameKind::kTakeBlocks || kind == FrameKind::kGiveBlocks || kind == FrameKind::kStopBlocks ||
         kind == FrameKind::kFreeBlocks;
}

void FollowBlockOrder(const Frame& frame, StepExecutor& executor, BlockCuts& cuts, BlockCourier& courier) {
  Message message = Decode(frame);
  if (auto* take = std::get_if<TakeBlocksMessage>(&message)) {
    StepExecutor::LentBlocks blocks = executor.LendToFill(take->blocks, take->on_device);
    if (take->is_state) CheckState(take->cut(), take->blocks.size(), executor);
    std::vector<BlockRuns> runs;
    if (take->is_state)
      runs.push_back(cuts.State().taken.here);
    else
      runs = cuts.From(take->cut());
    courier.Add(BlockCourier::TakeOrder{std::move(*take), std::move(blocks), std::move(runs)});
  } else if (auto* give = std::get_if<GiveBlocksMessage>(&message)) {
    courier.Add(OrderOf(std::move(*give), executor, cuts));
  } else if (const auto* stop = std::get_if<StopBlocksMessage>(&message)) {
    courier.Add(BlockCourier::StopOrder{stop->ticket});
  } else if (const auto* free = std::get_if<FreeBlocksMessage>(&message)) {
    executor.FreeBlocks(free->device_runs, true);
    executor.FreeBlocks(free->host_runs, false);
  }
}

}  // namespace quire
