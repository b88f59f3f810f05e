#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {

struct ClientAccount {
  double served = 0;             // weighted tokens
  int active = 0;                // requests that wait or run
  int64_t left = 0;              // when a request of its last ended, as a count of ends
  std::deque<Request*> waiting;  // by rank
};

/// Who is admitted next. First those that were preempted, by seniority. Then fairness between clients: the one that was
/// served least (Sheng et al., "Fairness in Serving Large Language Models", 2024: virtual token counters); a client
/// that comes back from idleness starts level with the others, so that nobody saves up; between
/// equals the most senior request decides. Among the requests of one client arrival decides, where one priority level
/// is worth kSecondsPerPriority of waiting; so nothing starves.
class WaitingQueue {
 public:
  static constexpr double kSecondsPerPriority = 30;
  static constexpr size_t kMaxIdleClients = 1024;  // beyond that, who was idle longest is forgotten
  static constexpr double kPromptWeight = 1, kGeneratedWeight = 2;

  /// A new request: gets its rank and its client's account.
  void Add(Request& request);
  /// One that began in another engine: gets rank and account, and does not wait yet.
  void Join(Request& request);
  /// A victim of preemption.
  void AddPreempted(Request& request);

  bool empty() const { return size_ == 0; }
  int size() const { return size_; }
  /// The next to admit. Not empty.
  Request& Head() const;
  /// Takes a request out; unknown ones are ignored. It stays active: see Left.
  void Remove(Request& request);
  /// The request has ended.
  void Left(Request& request);

  /// The client of the request was served.
  static void ChargePrompt(Request& request, int tokens) { request.account->served += kPromptWeight * tokens; }
  static void ChargeGenerated(Request& request, int tokens) { request.account->served += kGeneratedWeight * tokens; }

  // From a snapshot: an account, and a request that waits in its account, with the rank it has.
  ClientAccount& Restore(const std::string& client) { return clients_[client]; }
  void Restore(Request& request);

  const std::vector<Request*>& preempted() const { return preempted_; }
  /// Every request that waits, in no promised order.
  std::vector<Request*> All() const;
  const std::map<std::string, ClientAccount>& clients() const { return clients_; }

 private:
  std::vector<Request*> preempted_;  // most senior first
  std::map<std::string, ClientAccount> clients_;
  int size_ = 0;
  int64_t num_left_ = 0;
};

}  // namespace quire
