#include "worker/serve/block_courier.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/own_address.h"
#include "comm/wire/curve/curve_keys.h"

namespace quire {

namespace {

void Ring(int fd) {
  const uint64_t one = 1;
  (void)!::write(fd, &one, sizeof(one));
}

void Silence(int fd) {
  uint64_t count = 0;
  (void)!::read(fd, &count, sizeof(count));
}

}  // namespace

BlockCourier::BlockCourier(Self self)
    : self_(std::move(self)),
      sender_({self_.identity, self_.rank, self_.keys}),
      order_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      report_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

BlockCourier::~BlockCourier() {
  stopping_ = true;
  Ring(order_fd_);
  thread_.join();
  ::close(order_fd_);
  ::close(report_fd_);
}

void BlockCourier::Add(Order order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  Ring(order_fd_);
}

std::vector<BlocksReport> BlockCourier::TakeReports() {
  Silence(report_fd_);
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void BlockCourier::Wake() { Ring(report_fd_); }

void BlockCourier::Report(BlocksReport report) {
  {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
  }
  Ring(report_fd_);
}

void BlockCourier::ReportEnds(const std::vector<BlockTransferEnd>& ends) {
  for (const BlockTransferEnd& end : ends) {
    Unpack(end);
    const bool is_done = end.problem.empty();
    Report({end.ticket, is_done ? BlocksReport::kDone : BlocksReport::kFailed, "", end.problem, end.bytes});
  }
}

/// Makes one piece of memory, filled with the bytes of a state's blocks, so that the state is transferred like a single
/// block. `arrives`: true at the receiving end, where Unpack later copies the bytes into the blocks. The coordinator
/// has reserved the blocks, so no step touches them.
BlockMemory BlockCourier::Pack(uint64_t ticket, BlockMemory blocks, bool arrives) {
  StateParcel& parcel = states_[ticket];
  parcel = {{}, std::move(blocks), arrives};
  for (const std::span<std::byte> block : parcel.blocks)
    parcel.bytes.insert(parcel.bytes.end(), block.begin(), block.end());
  return {parcel.bytes};
}

/// Copies a state that has arrived into its blocks. Does nothing for transfers without a state.
void BlockCourier::Unpack(const BlockTransferEnd& end) {
  const auto found = states_.find(end.ticket);
  if (found == states_.end()) return;
  const StateParcel& parcel = found->second;
  auto from = parcel.bytes.begin();
  for (const std::span<std::byte> block : parcel.blocks) {
    if (parcel.arrives && end.problem.empty()) std::copy_n(from, block.size(), block.begin());
    from += std::ssize(block);
  }
  states_.erase(found);
}

/// Listens on the highest free port of the range, because MPI takes the lowest.
BlockReceiver BlockCourier::ReceiverOnNetwork(const TakeBlocksMessage& message) const {
  if (message.keys.empty() != (self_.keys == nullptr)) Fail("the coordinator has keys, or this worker, and not both");
  std::shared_ptr<CurveServer> curve;
  if (self_.keys != nullptr)
    curve = std::make_shared<CurveServer>(CoordinatorKeys{CopyOf(self_.keys->own), message.keys});
  const std::string address = OwnAddressTowards(self_.coordinator);
  for (int port = message.ports[1];; --port) {
    try {
      return BlockReceiver(fmt::format("tcp://{}:{}", address, port), self_.epoch, curve);
    } catch (const Error&) {
      if (port == message.ports[0]) throw;
    }
  }
}

BlockReceiver& BlockCourier::ReceiverAt(const TakeBlocksMessage& message) {
  const auto known = receivers_.find(message.endpoint);
  if (known != receivers_.end()) return known->second;
  BlockReceiver receiver =
      message.endpoint.empty() ? ReceiverOnNetwork(message) : BlockReceiver(message.endpoint, self_.epoch);
  return receivers_.emplace(message.endpoint, std::move(receiver)).first->second;
}

void BlockCourier::Begin(TakeOrder order) {
  const uint64_t ticket = order.message.ticket;
  try {
    BlockReceiver& receiver = ReceiverAt(order.message);
    if (order.message.is_state) order.blocks.memory = Pack(ticket, std::move(order.blocks.memory), true);
    receiver.Expect(ticket, std::move(order.blocks.memory), std::move(order.runs), order.blocks.carrier);
    Report({ticket, BlocksReport::kReady, receiver.endpoint(), "", 0});
  } catch (const Error& error) {
    Report({ticket, BlocksReport::kFailed, "", error.what(), 0});
  }
}

void BlockCourier::Begin(GiveOrder order) {
  if (order.is_state) order.blocks.memory = Pack(order.ticket, std::move(order.blocks.memory), false);
  sender_.Send(order.ticket, order.epoch, std::move(order.blocks.memory), std::move(order.destinations),
               order.blocks.carrier);
}

void BlockCourier::Begin(StopOrder order) {
  sender_.Stop(order.ticket);
  for (auto& [endpoint, receiver] : receivers_) receiver.Stop(order.ticket);
}

void BlockCourier::Wait(int patience_millis) {
  if (receivers_.empty()) {
    pollfd poll{order_fd_, POLLIN, 0};
    ::poll(&poll, 1, patience_millis);
    return;
  }
  std::vector<Channel*> channels;
  for (auto& [endpoint, receiver] : receivers_) channels.push_back(&receiver.channel());
  Channel::Wait(channels, order_fd_, patience_millis);
}

void BlockCourier::Run() {
  while (!stopping_) {
    // The thread waits only briefly while blocks move or the sender is busy, because it must retry sends on a full link
    // and poll device copies. It waits longer while blocks are expected, in order to notice deadlines, and longest
    // otherwise.
    const bool receiving = std::ranges::any_of(receivers_, [](const auto& known) { return !known.second.idle(); });
    const bool moving = std::ranges::any_of(receivers_, [](const auto& known) { return known.second.moving(); });
    Wait(moving || !sender_.idle() ? 1 : receiving ? 100 : 1000);
    Silence(order_fd_);
    std::vector<Order> orders;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    for (Order& order : orders) std::visit([this](auto& one) { Begin(std::move(one)); }, order);
    for (auto& [endpoint, receiver] : receivers_) ReportEnds(receiver.Poll());
    ReportEnds(sender_.Poll());
  }
}

}  // namespace quire
