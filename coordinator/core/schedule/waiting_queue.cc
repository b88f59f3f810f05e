#include "coordinator/core/schedule/waiting_queue.h"

#include <algorithm>
#include <limits>

#include "comm/base/error.h"

namespace quire {

namespace {

bool BySeniority(const Request* a, const Request* b) { return Senior(*a, *b); }
bool ByRank(const Request* a, const Request* b) { return a->rank != b->rank ? a->rank < b->rank : a->id < b->id; }

/// True when waiting client `a` is served before waiting client `b`.
bool GoesBefore(const ClientAccount& a, const ClientAccount& b) {
  return a.served != b.served ? a.served < b.served : Senior(a.head(), b.head());
}

}  // namespace

Request& ClientAccount::head() const {
  QUIRE_CHECK(waits(), "nobody waits");
  if (use.picked != nullptr) return *use.picked;
  if (!preempted.empty()) return *preempted.front();
  return *waiting.front();
}

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
    // While no client is active, a returning client starts level with the client that was served most. Otherwise the
    // returning client would count as served far less than clients that return later, and could take all turns.
    account.served = std::max(account.served, others ? least : most);
  }
  if (account.active++ == 0) ++num_active_;
  account.limits = request.client_limits;
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

ClientAccount& WaitingQueue::Restore(const std::string& client, int active) {
  ClientAccount& account = clients_[client];
  account.active = active;
  num_active_ += active > 0;
  return account;
}

void WaitingQueue::AddPreempted(Request& request) {
  auto& preempted = request.account->preempted;
  preempted.insert(std::ranges::upper_bound(preempted, &request, BySeniority), &request);
  ++size_;
}

ClientAccount* WaitingQueue::Next() {
  ClientAccount* least = nullptr;
  for (auto& [name, account] : clients_) {
    if (!account.waits() || account.use.passed_over) continue;
    if (least != nullptr && account.use.stands_back != least->use.stands_back) {
      if (least->use.stands_back) least = &account;
    } else if (least == nullptr || GoesBefore(account, *least)) {
      least = &account;
    }
  }
  return least;
}

void WaitingQueue::BeginPlan() {
  for (auto& [name, account] : clients_) {
    ClientAccount::Use& use = account.use;
    use.gave_way = use.passed_over = use.stands_back = use.left_room = false;
    use.picked = nullptr;
  }
}

void WaitingQueue::BeginTurns() {
  for (auto& [name, account] : clients_) {
    account.use.passed_over = account.use.gave_way;
    account.use.stands_back = account.use.left_room = false;
    account.use.picked = nullptr;
  }
}

void WaitingQueue::ChargePrompt(Request& request, int tokens) {
  request.account->served += kPromptWeight * tokens;
  request.account->prompt_tokens += tokens;
}

void WaitingQueue::ChargeGenerated(Request& request, int tokens) {
  request.account->served += kGeneratedWeight * tokens;
  request.account->generated_tokens += tokens;
}

void WaitingQueue::Remove(Request& request) {
  ClientAccount& account = *request.account;
  if (account.use.picked == &request) account.use.picked = nullptr;
  size_ -= static_cast<int>(std::erase(account.preempted, &request) + std::erase(account.waiting, &request));
}

void WaitingQueue::Left(Request& request) {
  request.account->left = ++num_left_;
  if (--request.account->active > 0) return;
  --num_active_;
  if (clients_.size() <= kMaxIdleClients) return;
  auto longest_idle = clients_.end();
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (it->second.active > 0) continue;
    if (longest_idle == clients_.end() || it->second.left < longest_idle->second.left) longest_idle = it;
  }
  clients_.erase(longest_idle);
}

std::vector<Request*> WaitingQueue::All() const {
  std::vector<Request*> all;
  for (const auto& [name, account] : clients_) {
    all.insert(all.end(), account.preempted.begin(), account.preempted.end());
    all.insert(all.end(), account.waiting.begin(), account.waiting.end());
  }
  return all;
}

}  // namespace quire
