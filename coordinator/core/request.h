#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/beam_search.h"
#include "coordinator/core/client_limits.h"
#include "coordinator/core/request_sink.h"
#include "coordinator/core/sequence.h"

namespace quire {

struct GenerationLimits {
  int max_tokens = 16;                  // generated per choice
  std::vector<TokenId> stop_token_ids;  // end the choice, are not delivered; includes the model's own unless ignored
  double max_seconds = 0;               // from arrival to the last token; 0: the server's limit
};

/// What a client (an API key) has, wants and was served; see WaitingQueue.
struct ClientAccount;

/// One prompt of an API call: sequences that share it. They are scheduled, preempted and admitted together.
struct Request {
  RequestId id = 0;
  std::string name;    // as the client knows it
  std::string client;  // whose share of the server it takes; empty: everybody's
  ClientLimits client_limits;
  int priority = 0;            // lower goes first among the requests of one client
  double arrival_seconds = 0;  // on the engine's clock
  GenerationLimits limits;
  SamplingSpec sampling;            // of choice 0; the others differ in `choice`
  std::string cache_salt;           // requests share cached blocks only with those of the same salt
  std::vector<Sequence> sequences;  // with beams: one per beam
  std::shared_ptr<RequestSink> sink;
  std::unique_ptr<BeamSearch> beams;  // null: every sequence draws for itself

  // --- the scheduler's and the engine's ---

  /// Sequences 1.. share the blocks of sequence 0 up to the last prompt token, once it has computed them.
  bool forked = false;
  double rank = 0;  // orders its client's waiting requests; lower goes first
  int num_preemptions = 0;
  int num_yields = 0;                           // of those, because its client had more than its share
  int64_t admitted_step = 0;                    // the number of the step with which it last got its place
  double last_moved_seconds = -1e9;             // when it came from another engine
  int num_lost_epochs = 0, num_lost_alone = 0;  // in a row, without a token: while it was computed; it and nobody else
  int num_swapped_blocks = 0;                   // on the host, distinct; while it is swapped out
  bool told_to_wait = false;                    // the decision log knows that it waits for a prefix
  int num_cached_tokens = 0;                    // prompt tokens taken from the prefix cache before the first preemption
  int num_scored = 0;                           // leading rows of the prompt whose scores were delivered (RowsToScore)
  double first_scheduled_seconds = -1;
  ClientAccount* account = nullptr;

  int num_prompt_tokens() const { return sequences.front().num_prompt_tokens; }
  /// Tokens of one of its sequences that no step computes yet; 1: it decodes.
  int TokensToCompute(const Sequence& sequence) const {
    const bool complete = sequence.length() == sequence.num_prompt_tokens + limits.max_tokens;
    return sequence.finished || complete ? 0 : sequence.length() - sequence.num_planned();
  }
  /// The sequence that computes the prompt for all of them; null once it has.
  const Sequence* LeaderAtWork() const {
    if (forked || sequences.size() == 1) return nullptr;
    const auto leader = std::ranges::find_if(sequences, [](const Sequence& s) { return !s.finished; });
    return leader->num_computed < num_prompt_tokens() - 1 ? &*leader : nullptr;
  }
  /// True while rows of its prompt are still to be scored.
  bool Scores() const { return sampling.num_prompt_logprobs >= 0 && num_scored < num_prompt_tokens() - 1; }
  /// True where the workers make something of all of its prompt's rows: those are computed without a break, from the
  /// first on, and none of what was computed before a preemption or a move counts.
  bool PoolsAllRows() const { return PoolsFromTheFirst(sampling.pooling); }
  /// The first so many tokens may come from the prefix cache: the others have rows that are to be scored, for which
  /// they must be computed.
  int NumCacheable() const {
    if (PoolsAllRows()) return 0;
    return Scores() ? num_scored : std::numeric_limits<int>::max();
  }
  ScoredRows RowsOf(int start, int count) const {
    return RowsToScore(sampling, num_prompt_tokens(), num_scored, start, count);
  }
  /// What computing tokens [start, start + count) takes of a step: one for each, and one for each row of the vocabulary
  /// that scores a token, but for one row, as with those that draw: so any budget is enough to go on.
  int StepCost(int start, int count) const { return count + std::max(0, RowsOf(start, count).count - 1); }
  /// The most tokens from `start` on, `count` of them at most, that cost no more than `budget`, if that is above 0.
  int TokensFor(int start, int count, int budget) const;
  void GotToken() { num_lost_epochs = num_lost_alone = 0; }
  bool swapped_out() const { return num_swapped_blocks > 0; }
  bool finished() const {
    return std::ranges::all_of(sequences, [](const Sequence& sequence) { return sequence.finished.has_value(); });
  }
};

inline int Request::TokensFor(int start, int count, int budget) const {
  const ScoredRows rows = RowsOf(start, count);
  const int single = rows.start - start + 1;  // leading tokens that cost 1 each; those of the other rows cost 2
  if (rows.count <= 1 || budget <= single) return std::min(count, budget);
  const int left = budget - single, rest = rows.count - 1;
  return left < 2 * rest ? single + left / 2 : std::min(count, budget - rest);
}

/// True when `a` is senior to `b`: who runs first in a step and who is preempted last, as far as shares do not decide
/// (Scheduler). Arrival alone: a priority that a client gives itself must not push others aside.
inline bool Senior(const Request& a, const Request& b) {
  return a.arrival_seconds != b.arrival_seconds ? a.arrival_seconds < b.arrival_seconds : a.id < b.id;
}

}  // namespace quire
