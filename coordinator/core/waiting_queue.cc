#include "coordinator/core/waiting_queue.h"

#include <algorithm>
#include <limits>

#include "comm/error.h"

namespace quire {

namespace {

bool BySeniority(const Request* a, const Request* b) { return Senior(*a, *b); }
bool ByRank(const Request* a, const Request* b) { return a->rank != b->rank ? a->rank < b->rank : a->id < b->id; }

/// Of two clients that wait.
bool GoesBefore(const ClientAccount& a, const ClientAccount& b) {
  return a.served != b.served ? a.served < b.served : Senior(*a.waiting.front(), *b.waiting.front());
}

}  // namespace

void WaitingQueue::Join(Request& request) {
  ClientAccount& account = clients_[request.client];
  if (account.active == 0) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    bool others = false;
    for (const auto& [name, other] : clients_) {
      most = std::max(most, other.served);
      if (other.active == 0) continue;
      others = true;
      least = std::min(least, other.served);
    }
    // Nobody is active: level with whoever was served most, so that a counter never lags for ever.
    account.served = std::max(account.served, others ? least : most);
  }
  ++account.active;
  request.rank = request.arrival_seconds + request.priority * kSecondsPerPriority;
  request.account = &account;
}

void WaitingQueue::Add(Request& request) {
  Join(request);
  Restore(request);
}

void WaitingQueue::Restore(Request& request) {
  ClientAccount& account = clients_[request.client];
  request.account = &account;
  account.waiting.insert(std::ranges::upper_bound(account.waiting, &request, ByRank), &request);
  ++size_;
}

void WaitingQueue::AddPreempted(Request& request) {
  preempted_.insert(std::ranges::upper_bound(preempted_, &request, BySeniority), &request);
  ++size_;
}

Request& WaitingQueue::Head() const {
  QUIRE_CHECK(size_ > 0, "nobody waits");
  if (!preempted_.empty()) return *preempted_.front();
  const ClientAccount* least = nullptr;
  for (const auto& [name, account] : clients_) {
    if (account.waiting.empty()) continue;
    if (least == nullptr || GoesBefore(account, *least)) least = &account;
  }
  return *least->waiting.front();
}

void WaitingQueue::Remove(Request& request) {
  size_ -= static_cast<int>(std::erase(preempted_, &request) + std::erase(request.account->waiting, &request));
}

void WaitingQueue::Left(Request& request) {
  request.account->left = ++num_left_;
  if (--request.account->active > 0 || clients_.size() <= kMaxIdleClients) return;
  auto longest_idle = clients_.end();
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (it->second.active > 0) continue;
    if (longest_idle == clients_.end() || it->second.left < longest_idle->second.left) longest_idle = it;
  }
  clients_.erase(longest_idle);
}

std::vector<Request*> WaitingQueue::All() const {
  std::vector<Request*> all = preempted_;
  for (const auto& [name, account] : clients_) all.insert(all.end(), account.waiting.begin(), account.waiting.end());
  return all;
}

}  // namespace quire
