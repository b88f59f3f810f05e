#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/beam_search.h"
#include "coordinator/core/blocks/draft_counts.h"
#include "coordinator/core/blocks/sequence.h"
#include "coordinator/core/client_limits.h"
#include "coordinator/core/request_sink.h"

namespace quire {

struct GenerationLimits {
  int max_tokens = 16;                  // generated tokens per choice, at most
  std::vector<TokenId> stop_token_ids;  // each ends its choice and is not delivered; the model's own are included
  double max_seconds = 0;               // time allowed between arrival and the last token; 0: the server's limit alone
};

/// The scheduler's record of one client (an API key): its waiting requests, its limits and the numbers of tokens
/// computed for it. See WaitingQueue.
struct ClientAccount;

/// One prompt of an API call and the sequences that share the prompt. The scheduler admits and preempts all sequences
/// of a request together.
struct Request {
  RequestId id = 0;
  std::string name;    // the id that the client sees
  std::string client;  // the client (API key); empty: all requests without a key count as one client
  ClientLimits client_limits;
  int priority = 0;            // within one client; the lower number goes first
  double arrival_seconds = 0;  // time of arrival on the engine's clock
  bool background = false;     // part of a batch: set aside while a request of any other kind is in the engine
  GenerationLimits limits;
  SamplingSpec sampling;            // parameters of choice 0; those of other choices differ only in `choice`
  std::string cache_salt;           // requests share cached blocks only if their salts and adapters are equal
  int adapter = 0;                  // number of its LoRA adapter (AddedSequence::adapter); 0: the base model
  std::vector<Sequence> sequences;  // one per choice, or one per beam
  std::vector<TokenId> prediction;  // the answer that the client expects of every choice; changes no token
  std::shared_ptr<RequestSink> sink;
  std::shared_ptr<const void> keeps;  // the ranks keep the adapter loaded until the request is freed; null: no adapter
  std::unique_ptr<BeamSearch> beams;  // beam search state; null: every sequence samples on its own

  // --- Set by the scheduler and the engine ---

  /// True once the first unfinished sequence has computed the prompt except its last token, and the others share its
  /// blocks.
  bool forked = false;
  double rank = 0;  // order among the client's waiting requests; the lower number goes first
  int num_preemptions = 0;
  int num_yields = 0;                // times that it was preempted or stood back for other clients
  int64_t admitted_step = 0;         // number of the step that last admitted the request
  double last_moved_seconds = -1e9;  // time when the request came from another engine
  /// num_lost_epochs: the number of worker groups that were lost while they computed the request, since the request's
  /// last token. num_lost_alone counts those groups that were computing no other request.
  int num_lost_epochs = 0, num_lost_alone = 0;
  int num_swapped_blocks = 0;  // distinct host blocks of the request while it is swapped out
  /// True while the request is in no queue and holds no blocks. The reason is that the ranks lack its adapter, or that
  /// it is a background request and requests of another kind are in the engine.
  bool set_aside = false;
  bool told_to_wait = false;  // the decision log has an entry that the request waits for a prefix
  int num_cached_tokens = 0;  // prompt tokens found in the prefix cache before the first preemption
  int num_scored = 0;         // leading prompt rows whose scores were delivered (RowsToScore)
  double first_scheduled_seconds = -1;
  std::array<DraftTally, kDraftSources> drafted = {};  // per DraftSource: verified and accepted draft tokens
  ClientAccount* account = nullptr;

  int num_prompt_tokens() const { return sequences.front().num_prompt_tokens; }
  /// Returns the number of tokens of the sequence that are neither computed nor in an outstanding step. 1 means that
  /// the sequence decodes. Returns 0 if the sequence is finished or has its full length. If the prompt that choices
  /// share is computed, the choices count as if they shared its blocks already.
  int TokensToCompute(const Sequence& sequence) const {
    const bool complete = sequence.length() == sequence.num_prompt_tokens + limits.max_tokens;
    if (sequence.finished || complete) return 0;
    const bool shares = !forked && sequences.size() > 1 && LeaderAtWork() == nullptr;
    return sequence.length() - (shares ? num_prompt_tokens() - 1 : sequence.num_planned());
  }
  /// Returns the number of the request's known tokens that are not computed yet. A prompt shared by several choices
  /// counts once.
  int64_t NumUncomputed() const;
  /// Returns the number of sequences that have one token to compute, so that the next step samples a token. Returns 0
  /// while a leader computes the prompt, and while beams wait for results.
  int NumDecodes() const;
  /// Returns the first unfinished sequence while it computes the prompt for all sequences. Returns null once the prompt
  /// is computed, or when there is only one sequence.
  const Sequence* LeaderAtWork() const {
    if (forked || sequences.size() == 1) return nullptr;
    const auto leader = std::ranges::find_if(sequences, [](const Sequence& s) { return !s.finished; });
    return leader->num_computed < num_prompt_tokens() - 1 ? &*leader : nullptr;
  }
  /// True while log-probabilities of prompt tokens are still to be delivered to the client.
  bool Scores() const { return sampling.num_prompt_logprobs >= 0 && num_scored < num_prompt_tokens() - 1; }
  /// True when the workers pool over all prompt rows. Such a prompt is computed without a break from the first row on;
  /// a preemption or a move discards the computed rows.
  bool PoolsAllRows() const { return PoolsFromTheFirst(sampling.pooling); }
  /// Returns the most leading tokens that the prefix cache may supply: 0 if all rows are pooled, INT_MAX if no rows are
  /// left to score, and otherwise num_scored. Later rows are still to be scored, which requires computing their tokens.
  int NumCacheable() const {
    if (PoolsAllRows()) return 0;
    return Scores() ? num_scored : std::numeric_limits<int>::max();
  }
  /// True while the workers store activations of the prompt's rows between two slices of the computation (LongPasses).
  bool InPass() const { return sequences.front().in_pass(); }
  ScoredRows RowsOf(int start, int count) const {
    return RowsToScore(sampling, num_prompt_tokens(), num_scored, start, count);
  }
  /// Returns what computing tokens [start, start + count) takes from the step's token budget: 1 per token, plus 1 per
  /// scored row except the first. The first scored row is free, as sampling is, so that any budget allows progress.
  int StepCost(int start, int count) const { return count + std::max(0, RowsOf(start, count).count - 1); }
  /// Returns the most tokens from `start` on, at most `count`, with a StepCost of at most `budget` (> 0).
  int TokensFor(int start, int count, int budget) const;
  void GotToken() { num_lost_epochs = num_lost_alone = 0; }
  bool swapped_out() const { return num_swapped_blocks > 0; }
  bool finished() const {
    return std::ranges::all_of(sequences, [](const Sequence& sequence) { return sequence.finished.has_value(); });
  }
};

inline int64_t Request::NumUncomputed() const {
  const int shared = forked || sequences.size() == 1 ? 0 : num_prompt_tokens() - 1;
  int64_t tokens = 0;
  for (const Sequence& sequence : sequences) {
    if (!sequence.finished) tokens += sequence.num_tokens() - std::max(sequence.num_computed, shared);
  }
  const Sequence* leader = LeaderAtWork();
  return tokens + (leader != nullptr ? shared - leader->num_computed : 0);
}

inline int Request::NumDecodes() const {
  const auto waits = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (LeaderAtWork() != nullptr || (beams != nullptr && std::ranges::any_of(sequences, waits))) return 0;
  return static_cast<int>(std::ranges::count_if(sequences, [&](const Sequence& s) { return TokensToCompute(s) == 1; }));
}

inline int Request::TokensFor(int start, int count, int budget) const {
  const ScoredRows rows = RowsOf(start, count);
  const int single = rows.start - start + 1;  // leading tokens that cost 1 each; the next `rest` tokens cost 2 each
  if (rows.count <= 1 || budget <= single) return std::min(count, budget);
  const int left = budget - single, rest = rows.count - 1;
  return left < 2 * rest ? single + left / 2 : std::min(count, budget - rest);
}

/// True when `a` is senior to `b`. Senior requests run first in a step and are preempted last, unless client shares
/// decide otherwise (Scheduler). Only the time of arrival counts (for equal times, the id), so that a client cannot use
/// `priority` to push other clients aside.
inline bool Senior(const Request& a, const Request& b) {
  return a.arrival_seconds != b.arrival_seconds ? a.arrival_seconds < b.arrival_seconds : a.id < b.id;
}

}  // namespace quire
