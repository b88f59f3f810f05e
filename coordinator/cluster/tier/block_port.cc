#include "coordinator/cluster/tier/block_port.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace quire {

namespace {

std::shared_ptr<CurveServer> ServerOf(const BlockPort::Security* security) {
  if (security == nullptr) return nullptr;
  return std::make_shared<CurveServer>(CoordinatorKeys{CopyOf(security->own), security->ranks});
}

WorkerKeys ClientOf(const BlockPort::Security* security) {
  return security == nullptr ? WorkerKeys{} : WorkerKeys{CopyOf(security->own), ""};
}

}  // namespace

BlockPort::BlockPort(const std::string& endpoint, const Security* security, std::function<void()> wake)
    : wake_(std::move(wake)),
      keys_(ClientOf(security)),
      receiver_(endpoint, kEpoch, ServerOf(security)),
      sender_({fmt::format("blocks.coordinator.{}.{}", ::getpid(), static_cast<const void*>(this)), 0,
               security == nullptr ? nullptr : &keys_}),
      endpoint_(receiver_.endpoint()),
      order_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

BlockPort::~BlockPort() {
  Add(StopOrder{0});
  stopping_ = true;
  thread_.join();
  ::close(order_fd_);
}

void BlockPort::Add(Order order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  const uint64_t one = 1;
  (void)!::write(order_fd_, &one, sizeof(one));
}

void BlockPort::Receive(uint64_t ticket, Blocks blocks, std::vector<BlockRuns> runs) {
  Add(ReceiveOrder{ticket, std::move(blocks), std::move(runs)});
}

void BlockPort::Send(uint64_t ticket, EpochId epoch, Blocks blocks, std::vector<BlockDestination> destinations) {
  Add(SendOrder{ticket, epoch, std::move(blocks), std::move(destinations)});
}

void BlockPort::Stop(uint64_t ticket) { Add(StopOrder{ticket}); }

std::vector<BlockTransferEnd> BlockPort::TakeEnds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

void BlockPort::Begin(ReceiveOrder order) {
  owners_[order.ticket] = std::move(order.blocks.owner);
  receiver_.Expect(order.ticket, std::move(order.blocks.memory), std::move(order.runs));
}

void BlockPort::Begin(SendOrder order) {
  owners_[order.ticket] = std::move(order.blocks.owner);
  sender_.Send(order.ticket, order.epoch, std::move(order.blocks.memory), std::move(order.destinations));
}

void BlockPort::Begin(StopOrder order) {
  receiver_.Stop(order.ticket);
  sender_.Stop(order.ticket);
}

void BlockPort::Note(const std::vector<BlockTransferEnd>& ends) {
  if (ends.empty()) return;
  for (const BlockTransferEnd& end : ends) owners_.erase(end.ticket);
  {
    const std::lock_guard lock(mutex_);
    ends_.insert(ends_.end(), ends.begin(), ends.end());
  }
  wake_();
}

void BlockPort::Run() {
  while (!stopping_) {
    // Waits only briefly while a full link must be tried again, and longer while blocks are expected, in order to
    // notice deadlines.
    Channel* channels[] = {&receiver_.channel()};
    Channel::Wait(channels, order_fd_, !sender_.idle() ? 1 : !receiver_.idle() ? 100 : 1000);
    uint64_t count = 0;
    (void)!::read(order_fd_, &count, sizeof(count));
    std::vector<Order> orders;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    for (Order& order : orders) std::visit([this](auto& one) { Begin(std::move(one)); }, order);
    Note(receiver_.Poll());
    Note(sender_.Poll());
  }
}

}  // namespace quire
