#include "worker/serve/block_orders.h"

#include <utility>
#include <variant>

namespace quire {

namespace {

BlockCourier::GiveOrder OrderOf(GiveBlocksMessage&& give, StepExecutor& executor, BlockCuts& cuts) {
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
  return kind == FrameKind::kTakeBlocks || kind == FrameKind::kGiveBlocks || kind == FrameKind::kStopBlocks;
}

void FollowBlockOrder(const Frame& frame, StepExecutor& executor, BlockCuts& cuts, BlockCourier& courier) {
  Message message = Decode(frame);
  if (auto* take = std::get_if<TakeBlocksMessage>(&message)) {
    StepExecutor::LentBlocks blocks = executor.LendToFill(take->blocks, take->on_device);
    std::vector<BlockRuns> runs = cuts.From(take->cut());
    courier.Add(BlockCourier::TakeOrder{std::move(*take), std::move(blocks), std::move(runs)});
  } else if (auto* give = std::get_if<GiveBlocksMessage>(&message)) {
    courier.Add(OrderOf(std::move(*give), executor, cuts));
  } else if (const auto* stop = std::get_if<StopBlocksMessage>(&message)) {
    courier.Add(BlockCourier::StopOrder{stop->ticket});
  }
}

}  // namespace quire
