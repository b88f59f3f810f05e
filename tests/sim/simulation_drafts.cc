// Simulates the draft model of the workers, and checks the counts of draft tokens in answers and statistics.
#include <algorithm>

#include "comm/base/error.h"
#include "tests/sim/simulation.h"

namespace quire::sim {

/// Returns the drafts of rank 0's draft model after a step. In some runs some drafts never come, or come a step late,
/// when other tokens follow.
std::vector<Draft> Simulation::GuessesAfter(const Sent& sent) {
  std::vector<Draft> guesses;
  for (const auto& [slot, most] : sent.guesses) {
    const SequenceState& sequence = workers_.front().sequence(slot);
    const auto count = static_cast<int>(guessing_.Between(1, most));
    const auto key = static_cast<uint64_t>(guessing_.Below(1 << 30));
    std::vector<TokenId> tokens = proposer_.Guess(sequence.sampling, sequence.adapter, sequence.tokens, count, key);
    std::vector<TokenId>& last = last_guesses_[slot];
    if (guessing_.Below(100) < scenario_.guesses_late) tokens.swap(last);
    if (tokens.empty() || std::ssize(tokens) > most) continue;
    last = tokens;
    ++outcome_.guesses;
    for (const TokenId token : tokens) Trace(static_cast<uint64_t>(token));
    guesses.push_back({slot, std::move(tokens)});
  }
  return guesses;
}

/// Checks that verification accepts every token when the draft model's drafts are right and in time. This requires that
/// drafts go to their own sequences, after the tokens for which they were made.
void Simulation::CheckRightGuesses(const Sent& sent, const std::vector<SampledToken>& tokens) const {
  if (!scenario_.engine.drafts.from_model || scenario_.drafts_right < 100 || scenario_.guesses_late > 0) return;
  for (const Member& member : sent.members) {
    if (member.num_drafts > 0 && std::ranges::count(tokens, member.slot, &SampledToken::slot) != 1 + member.num_drafts)
      throw Failure{
          fmt::format("slot {}: a right guess of {} tokens is not kept whole", member.slot, member.num_drafts)};
  }
}

/// Checks that the engine accepts drafts that it has ordered, and refuses all others.
void Simulation::CheckFits(const std::vector<Draft>& guesses, const std::vector<GuessOrder>& orders) {
  if (!engine_.Fits(guesses)) throw Failure{"the draft model's guesses do not fit the plan"};
  if (guesses.empty() || guessing_.Below(10) > 0) return;
  const auto at = static_cast<size_t>(guessing_.Below(std::ssize(guesses)));
  const auto refuses = [&](const char* what, auto change) {
    std::vector<Draft> other = guesses;
    change(other, other[at]);
    if (engine_.Fits(other)) throw Failure{fmt::format("a guess {} is taken for one that was ordered", what)};
  };
  const int most = std::ranges::find(orders, guesses[at].slot, &GuessOrder::slot)->count;
  refuses("of a slot without an order", [](auto&, Draft& guess) { guess.slot += 1000; });
  refuses("that is too long", [&](auto&, Draft& guess) { guess.tokens.resize(static_cast<size_t>(most) + 1, 0); });
  refuses("without tokens", [](auto&, Draft& guess) { guess.tokens.clear(); });
  refuses("of an unknown token", [](auto&, Draft& guess) { guess.tokens.back() = kVocab; });
  refuses("that comes twice", [&](auto& other, Draft&) { other.push_back(other[at]); });
}

/// Records the counts that the client must get: how many draft tokens became part of its answer, and how many did not.
void Simulation::ExpectDrafts(Client& client, const Member& member, int accepted) {
  client.due_drafts[member.choice] = {accepted, member.num_drafts - accepted};
  drafts_right_ += accepted;
  outcome_.drafts += member.num_drafts;
}

/// Checks that every client got its counts of draft tokens, and that the engine's statistics count the same
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
  const DraftOptions& drafts = scenario_.engine.drafts;
  const auto other = drafts.model_source == DraftSource::kLayer ? DraftSource::kModel : DraftSource::kLayer;
  if (engine_.stats().drafts[static_cast<size_t>(other)].tokens > 0)
    throw Failure{fmt::format("guesses count for {}, which makes none", NameOf(other))};
}

}  // namespace quire::sim
