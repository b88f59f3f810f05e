#include "tests/sim/decodes.h"

#include <algorithm>
#include <map>

#include "comm/base/error.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

void Decodes::BeginPlan() {
  ready_.clear();
  turns_.clear();
  running_.clear();
  for (const Request* request : engine_.scheduler().running()) {
    running_.insert(request->id);
    // The beams of a request get their next tokens in the same step. The request is skipped while one of its beams
    // waits for a step's result, or has tokens to compute before its last token.
    const bool is_beam = request->beams != nullptr;
    const auto waits = [](const Sequence& s) {
      return !s.finished && (s.num_pending > 0 || s.length() - s.num_planned() > 1);
    };
    if (is_beam && std::ranges::any_of(request->sequences, waits)) continue;
    const bool takes_turns = !is_beam && request->LeaderAtWork() == nullptr;
    for (const Sequence& s : request->sequences) {
      if (takes_turns && request->TokensToCompute(s) == 1)
        turns_.push_back({request->id, s.choice, s.num_pending, s.last_step});
      // The first choice computes the prompt for all choices, except the last token. The choice is not a decode until
      // the results for these tokens have come.
      const bool leads = !request->forked && request->sequences.size() > 1 && s.num_computed + 1 < s.num_prompt_tokens;
      const bool complete = s.finished || s.length() == s.num_prompt_tokens + request->limits.max_tokens;
      if (s.slot && !leads && !complete && s.length() - s.num_planned() == 1)
        ready_.push_back({request->id, s.choice, is_beam});
    }
  }
}

/// Returns the sequence if its request still runs, otherwise null.
const Sequence* Decodes::Find(RequestId request, int choice) const {
  const auto& running = engine_.scheduler().running();
  const auto it = std::ranges::find(running, request, &Request::id);
  if (it == running.end()) return nullptr;
  return &(*it)->sequences[static_cast<size_t>(choice)];
}

/// Returns the request and choice of each decode that must not be in the next step, because other decodes have their
/// turn. With S stages, a step has 1 / S of the decodes, rounded up: first decodes for which no outstanding step
/// samples a token, the one computed longest ago first; then decodes for which one outstanding step samples a token. If
/// no step is outstanding (`ahead` is false), the step also has the decode of the most senior request.
std::set<std::pair<RequestId, int>> Decodes::OutOfTurn(bool ahead) const {
  const auto stages = static_cast<size_t>(engine_.options().scheduler.num_stages);
  std::set<std::pair<RequestId, int>> out;
  if (!engine_.scheduler().takes_turns()) return out;
  std::vector<Turn> line = turns_;
  size_t part = (turns_.size() + stages - 1) / stages;
  const auto key = [](const Turn& turn) { return std::pair(turn.num_pending > 0, turn.last_step); };
  if (!ahead && !line.empty()) {
    line.erase(line.begin());
    part = std::max<size_t>(1, part - 1);
  }
  std::ranges::stable_sort(line, {}, key);
  const bool may_repeat = !line.empty() && line.front().num_pending > 0;
  size_t taken = 0;
  for (const Turn& turn : line) {
    const bool fits = turn.num_pending == 0 || (may_repeat && turn.num_pending == 1);
    if (fits && taken < part) {
      ++taken;
    } else {
      out.emplace(turn.request, turn.choice);
    }
  }
  return out;
}

/// True when a running request without work in the plan may have lacked blocks. `computed`: the slots with work in the
/// plan. Such a request ends the planning of a step in two cases. The step is planned ahead, so the request may not
/// preempt others; or blocks are being copied, and these blocks will soon be free.
bool Decodes::LacksBlocks(const std::set<SlotId>& computed, bool ahead) const {
  const BlockManager& blocks = engine_.blocks();
  if (!ahead && blocks.device_holdings().empty()) return false;
  return std::ranges::any_of(engine_.scheduler().running(), [&](const Request* request) {
    int needed = 0;
    for (const Sequence& s : request->sequences) {
      if (s.slot && computed.contains(*s.slot)) return false;
      const int more = blocks.BlocksFor(s.length()) - static_cast<int>(s.blocks.size());
      if (!s.finished) needed += std::max(0, more) + 1 + 2 * blocks.sizes().state_blocks;
    }
    return needed > blocks.num_free();
  });
}

void Decodes::Planned(const StepPlan& plan, bool ahead, bool alone) const {
  std::set<SlotId> computed(plan.decodes.begin(), plan.decodes.end());
  for (const Draft& draft : plan.drafts) computed.insert(draft.slot);
  for (const Chunk& chunk : plan.chunks) computed.insert(chunk.slot);
  if (LacksBlocks(computed, ahead)) return;
  std::map<std::string, int64_t> waiting;  // clients with a decode that is left out: the most work of such a decode
  const auto out_of_turn = OutOfTurn(ahead);
  // If there are several clients, running requests may be preempted for others, both before and after the decodes of
  // the step are chosen. The turns are then known only if the running requests are still the same.
  const auto& now = engine_.scheduler().running();
  const bool turns_are_known =
      alone || (now.size() == running_.size() &&
                std::ranges::all_of(now, [this](const Request* request) { return running_.contains(request->id); }));
  for (const Ready& ready : ready_) {
    const Sequence* sequence = Find(ready.request, ready.choice);
    const bool is_computed = sequence != nullptr && sequence->slot && computed.contains(*sequence->slot);
    const bool skips = out_of_turn.contains({ready.request, ready.choice});
    if (!turns_are_known && engine_.scheduler().takes_turns()) continue;
    if (is_computed && skips)
      throw Failure{fmt::format("request {}, choice {} is computed out of its turn", ready.request, ready.choice)};
    if (sequence == nullptr || is_computed || skips) continue;
    if (alone)
      throw Failure{
          fmt::format("request {}, choice {} has one token to compute and is left out of a step with {} chunks",
                      ready.request, ready.choice, plan.chunks.size())};
    if (ready.is_beam) continue;
    int64_t& left_out = waiting[engine_.requests().at(ready.request)->client];
    left_out = std::max<int64_t>(left_out, WorkOf(1, sequence->num_planned()));
  }
  for (const auto& [client, left_out] : waiting) CheckShare(client, left_out, plan);
}

int64_t Decodes::WorkOf(int tokens, int context) const {
  return int64_t{tokens} * engine_.scheduler().cost().Weight(context);
}

/// Checks the work of a client whose decodes do not all fit into the step: its prompt chunks may get at most one token
/// more than its decodes, and than the decode that did not fit. `left_out`: the most work of a decode that is left out.
void Decodes::CheckShare(const std::string& client, int64_t left_out, const StepPlan& plan) const {
  int64_t decodes = left_out - 1, chunks = 0;
  // The client's share was divided before requests were preempted, so it includes the decodes of preempted requests.
  for (const Ready& ready : ready_) {
    const auto request = engine_.requests().find(ready.request);
    const bool left = request != engine_.requests().end() && Find(ready.request, ready.choice) == nullptr;
    if (left && !ready.is_beam && request->second->client == client)
      decodes += WorkOf(1, request->second->sequences[static_cast<size_t>(ready.choice)].length());
  }
  for (const Request* request : engine_.scheduler().running()) {
    if (request->client != client) continue;
    const bool is_new = !running_.contains(request->id);  // chunks of new requests get the tokens that are left
    for (const Sequence& s : request->sequences) {
      if (!s.slot) continue;
      const bool decoded = request->beams == nullptr && std::ranges::find(plan.decodes, *s.slot) != plan.decodes.end();
      const bool has_drafts = std::ranges::find(plan.drafts, *s.slot, &Draft::slot) != plan.drafts.end();
      if (decoded || has_drafts) decodes += WorkOf(1, s.num_planned() - 1);
      const auto chunk = std::ranges::find(plan.chunks, *s.slot, &Chunk::slot);
      if (chunk == plan.chunks.end()) continue;
      // A prompt of one token decodes in its first step.
      if (chunk->count == 1) decodes += WorkOf(1, chunk->start);
      if (chunk->count > 1 && !is_new) chunks += WorkOf(chunk->count, chunk->start);
    }
  }
  if (chunks > decodes + 1)
    throw Failure{
        fmt::format("client \"{}\" has work of {} for chunks and of {} for decodes in a step that leaves out a decode",
                    client, chunks, decodes)};
}

}  // namespace quire::sim
