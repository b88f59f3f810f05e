#include "worker/serve/block_courier.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "comm/base/error.h"

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

BlockCourier::BlockCourier(std::string identity)
    : sender_(std::move(identity)),
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

void BlockCourier::Take(uint64_t ticket, std::string endpoint, BlockMemory blocks) {
  Add({true, ticket, std::move(endpoint), std::move(blocks)});
}

void BlockCourier::Give(uint64_t ticket, std::string endpoint, BlockMemory blocks) {
  Add({false, ticket, std::move(endpoint), std::move(blocks)});
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
  for (const auto& [ticket, bytes, problem] : ends)
    Report({ticket, problem.empty() ? BlocksReport::kDone : BlocksReport::kFailed, "", problem, bytes});
}

void BlockCourier::Begin(Order order) {
  if (!order.take) return sender_.Send(order.ticket, order.endpoint, std::move(order.blocks));
  try {
    if (!receiver_) receiver_.emplace(order.endpoint);
    receiver_->Expect(order.ticket, std::move(order.blocks));
    Report({order.ticket, BlocksReport::kReady, receiver_->endpoint(), "", 0});
  } catch (const Error& error) {
    Report({order.ticket, BlocksReport::kFailed, "", error.what(), 0});
  }
}

void BlockCourier::Run() {
  while (!stopping_) {
    // A full link is tried again soon; who waits for blocks looks at the clock now and then.
    const bool receiving = receiver_ && !receiver_->idle();
    const int patience = !sender_.idle() ? 1 : receiving ? 100 : 1000;
    if (receiver_) {
      Channel* channels[] = {&receiver_->channel()};
      Channel::Wait(channels, order_fd_, patience);
    } else {
      pollfd poll{order_fd_, POLLIN, 0};
      ::poll(&poll, 1, patience);
    }
    Silence(order_fd_);
    std::vector<Order> orders;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    for (Order& order : orders) Begin(std::move(order));
    if (receiver_) ReportEnds(receiver_->Poll());
    ReportEnds(sender_.Poll());
  }
}

}  // namespace quire
