#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {

struct ClientAccount {
  double served = 0;                                // tokens computed for the client, weighted by kind
  int64_t prompt_tokens = 0, generated_tokens = 0;  // tokens computed for the client; cached prompt tokens do not count
  int active = 0;                                   // number of requests that wait or run
  int64_t left = 0;  // number of requests that had ended in the engine when this client's latest request ended
  ClientLimits limits;
  /// Sequence slots and blocks that other clients leave to this client until step until_step, because requests were
  /// preempted for the client, and the client is likely to need this room again. The client's present use is included.
  struct Reserve {
    int sequences = 0, blocks = 0;
    int64_t until_step = 0;
  } reserve;
  std::vector<Request*> preempted;  // most senior first; they go before `waiting`
  std::deque<Request*> waiting;     // sorted by Request::rank

  int num_waiting() const { return static_cast<int>(preempted.size() + waiting.size()); }
  bool waits() const { return num_waiting() > 0; }
  /// Returns the client's next request to admit, or the request that goes before it (Use::picked). Requires waits().
  Request& head() const;

  /// The client's use of resources while a plan is made (Scheduler). Each plan sets these values anew.
  struct Use {
    int sequences = 0, blocks = 0;  // of running requests; `blocks` includes blocks that they will take soon
    int64_t longest_blocks = 0;     // blocks of its running requests at their full length
    bool passed_over = false;       // no request of the client is admitted in this round of turns
    bool gave_way = false;          // one of its requests was preempted for another client, so this plan admits none
    bool stands_back = false;       // other clients go first in this round of turns
    bool left_room = false;         // it stands back although its request, larger than a share, would fit
    Request* picked = nullptr;      // a waiting request that goes before the client's next one; null: none
    // Tokens to compute, and their work (LearnedCost::Weight): of decodes, those of beams apart, and of all others.
    int64_t tokens = 0, decodes = 0, beams = 0, chunks = 0;
    int64_t chunks_left = 0;  // the part of `chunks` that the step may still compute
    int64_t demand() const { return decodes + chunks; }
  } use;
};

/// Decides which request is admitted next. The client that was served least goes first (Sheng et al., "Fairness in
/// Serving Large Language Models", 2024: virtual token counters). A client that becomes active again starts level with
/// the least served active client. Among clients served equally, the more senior request goes first. Within a client,
/// preempted requests go first, by seniority, then others by arrival; a priority level counts as kSecondsPerPriority.
class WaitingQueue {
 public:
  static constexpr double kSecondsPerPriority = 30;
  static constexpr size_t kMaxIdleClients = 1024;  // with more accounts, the account idle for longest is forgotten
  static constexpr double kPromptWeight = 1, kGeneratedWeight = 2;

  /// Queues a new request and gives it its rank and its client's account.
  void Add(Request& request);
  /// Does what Add does without queueing the request, for requests that began in another engine or were set aside.
  void Join(Request& request);
  /// Queues a preempted request.
  void AddPreempted(Request& request);

  bool empty() const { return size_ == 0; }
  int size() const { return size_; }
  /// Returns the number of clients with waiting or running requests.
  int num_active() const { return num_active_; }
  /// Returns the waiting client whose turn it is; null: all are passed over. Clients that stand back come last.
  ClientAccount* Next();
  /// Begins a round of turns: clears the marks of the last round, but passes over the clients with gave_way set.
  void BeginTurns();
  /// Begins a plan: clears passed_over, gave_way, stands_back, left_room and picked of all clients.
  void BeginPlan();
  /// Takes a request out of the queue, if it waits. The request counts as active until Left.
  void Remove(Request& request);
  /// Takes a request out of its client's count of active requests, because it ended or left the engine.
  void Left(Request& request);

  /// Charges the request's client for `tokens` prompt or generated tokens. A negative number gives tokens back.
  static void ChargePrompt(Request& request, int tokens);
  static void ChargeGenerated(Request& request, int tokens);

  // The next two functions load a snapshot: the first makes an account, the second queues a request that has its rank.
  ClientAccount& Restore(const std::string& client, int active);
  void Restore(Request& request);

  /// Returns all waiting requests, in no particular order.
  std::vector<Request*> All() const;
  const std::map<std::string, ClientAccount>& clients() const { return clients_; }
  std::map<std::string, ClientAccount>& clients() { return clients_; }

 private:
  std::map<std::string, ClientAccount> clients_;
  int size_ = 0, num_active_ = 0;
  int64_t num_left_ = 0;
  friend class EngineArchive;
};

}  // namespace quire
