// Checks the numbers of guessed tokens that clients and statistics report.
#include "comm/base/error.h"
#include "tests/sim/simulation.h"

namespace quire::sim {

/// Notes the report that the client must get: how many guessed tokens became part of its answer.
void Simulation::ExpectDrafts(Client& client, const Member& member, int accepted) {
  client.due_drafts[member.choice] = {accepted, member.num_drafts - accepted};
  drafts_right_ += accepted;
  outcome_.drafts += member.num_drafts;
}

/// Checks that every client got its report about guessed tokens, and that the engine's statistics count the same
/// tokens.
void Simulation::CheckDrafts(const Sent& sent) const {
  for (const Member& member : sent.members) {
    if (member.request != 0 && !clients_.at(member.request)->due_drafts.empty())
      throw Failure{fmt::format("request {} is not told what became of its guessed tokens", member.request)};
  }
  const DraftCounts counts = engine_.stats().all_drafts();
  int64_t by_position = 0;
  for (const int64_t accepted : counts.accepted_at) by_position += accepted;
  if (counts.tokens != outcome_.drafts || counts.accepted != drafts_right_ || by_position != drafts_right_)
    throw Failure{fmt::format("{} guessed tokens, {} of them right, are counted as {}, {} and {}", outcome_.drafts,
                              drafts_right_, counts.tokens, counts.accepted, by_position)};
}

}  // namespace quire::sim
