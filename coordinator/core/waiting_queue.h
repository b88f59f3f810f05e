#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/request.h"

namespace quire {

struct ClientAccount {
  double served = 0;                                // weighted tokens
  int64_t prompt_tokens = 0, generated_tokens = 0;  // computed for it: the first without those from the cache
  int active = 0;                                   // requests that wait or run
  int64_t left = 0;                                 // when a request of its last ended, as a count of ends
  ClientLimits limits;
  /// What others leave free for it while it is away, because way was made for it: it is likely to come again, and who
  /// came back in between would have to give way again.
  struct Reserve {
    int sequences = 0, blocks = 0;
    int64_t until_step = 0;
  } reserve;
  std::vector<Request*> preempted;  // most senior first; they go before
  std::deque<Request*> waiting;     // by rank

  int num_waiting() const { return static_cast<int>(preempted.size() + waiting.size()); }
  bool waits() const { return num_waiting() > 0; }
  /// The next of its requests to admit. Somebody waits.
  Request& head() const;

  /// What a client has in the plan that is being made (Scheduler); nothing outlives that.
  struct Use {
    int sequences = 0, blocks = 0;  // that its running requests have; blocks: and will take soon
    int64_t longest_blocks = 0;     // that they take at their longest
    bool passed_over = false;       // nobody of it is admitted any more, in this round of turns
    bool gave_way = false;          // nor with this plan
    bool stands_back = false;       // it has its share: others go first, in this round of turns
    int decodes = 0, beams = 0;  // sequences that have one token to compute; those that draw together, apart
    int64_t chunks = 0;          // tokens of its other sequences
    int chunks_left = 0;         // of those, that it may still compute in this step
    int64_t demand() const { return decodes + chunks; }
  } use;
};

/// Who is admitted next. Fairness between clients: the one that was served least goes first (Sheng et al., "Fairness in
/// Serving Large Language Models", 2024: virtual token counters); a client that comes back from idleness starts level
/// with the others, so that nobody saves up; between equals the more senior request decides. Among the requests of one
/// client those that were preempted go first, by seniority; then arrival decides, where one priority level is worth
/// kSecondsPerPriority of waiting; so nothing starves.
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
  /// Clients with requests that wait or run.
  int num_active() const { return num_active_; }
  /// Whose turn it is of those that wait and are not passed over, who stands back last; null when there is none.
  ClientAccount* Next();
  /// Nobody is passed over or stands back any more, but those that gave way are passed over.
  void BeginTurns();
  /// Nobody has given way with this plan.
  void BeginPlan();
  /// Takes a request out; unknown ones are ignored. It stays active: see Left.
  void Remove(Request& request);
  /// The request has ended.
  void Left(Request& request);

  /// The client of the request was served.
  static void ChargePrompt(Request& request, int tokens);
  static void ChargeGenerated(Request& request, int tokens);

  // From a snapshot: an account, and a request that waits in its account, with the rank it has.
  ClientAccount& Restore(const std::string& client, int active);
  void Restore(Request& request);

  /// Every request that waits, in no promised order.
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
