// Simulates the workers of a run: their plans, answers and losses, and block moves between engines.
#include <set>
#include <string>
#include <tuple>

#include "comm/base/error.h"
#include "tests/sim/simulation.h"

namespace quire::sim {

PlanLimits Simulation::Limits() const {
  const EngineOptions& o = scenario_.engine;
  const PoolSizes pools = engine_.blocks().sizes();
  return {pools.num_blocks,
          pools.num_host_blocks + 1,
          o.blocks.block_size,
          o.scheduler.max_running,
          o.scheduler.max_step_tokens,
          o.max_model_len,
          o.vocab_size,
          pools.state_blocks,
          kMostAdapters,
          {},
          o.drafts.from_model ? o.drafts.num_tokens : 0,
          o.drafts.max_batch * (1 + o.drafts.num_tokens),
          o.scheduler.pass_stages};
}

PoolSizes Simulation::PoolsOfNextEpoch() {
  const BlockManagerOptions& first = scenario_.engine.blocks;
  const int needed = engine_.BlocksNeeded(first.state_blocks);
  if (needed != judge_.BlocksNeeded())
    throw Failure{fmt::format("{} blocks are said to be needed, not {}", needed, judge_.BlocksNeeded())};
  if (static_cast<double>(sizes_.Below(1000)) >= scenario_.resize * 1000) return engine_.blocks().sizes();
  // New pools have enough blocks for every present and future request, unless this run has pools that are too small.
  int least = std::max(2, judge_.BlocksNeeded());
  for (size_t i = next_arrival_; i < scenario_.arrivals.size(); ++i) {
    const int64_t longest = BlocksAtLongest(scenario_.arrivals[i].ask, scenario_.engine) + 1;
    if (longest <= first.num_blocks) least = std::max(least, static_cast<int>(longest));
  }
  if (Happens(more_, scenario_.shrink)) least = std::max(2, judge_.BlocksNeeded() / 2);
  const int most = std::max(least, 2 * first.num_blocks);
  return {static_cast<int>(sizes_.Between(least, most)), static_cast<int>(sizes_.Between(0, 2 * first.num_host_blocks)),
          first.state_blocks};
}

/// Chooses the number of stages of the next group; a new group may be a pipeline of another length.
int Simulation::StagesOfNextEpoch() {
  const int stages = scenario_.engine.scheduler.num_stages;
  return Happens(stages_, scenario_.restage) ? static_cast<int>(stages_.Between(1, 3)) : stages;
}

void Simulation::StartEpoch() {
  const PoolSizes pools = PoolsOfNextEpoch();
  turns_.GroupLost();
  pins_.clear();
  const int stages = StagesOfNextEpoch();
  Expect(judge_.GivenUp(pools.num_blocks - 1), [&] { engine_.StartEpoch(++epoch_, pools, stages); });
  ForgetSetAside();
  workers_.assign(
      static_cast<size_t>(scenario_.num_workers),
      SimWorker(Limits(), scenario_.engine.blocks.sliding_window, scenario_.engine.scheduler.max_kept_rows));
  adapters_.clear();
  disk_.GroupLost();
  stragglers_.clear();                        // their tickets end with the engine's epoch
  for (Traveller& traveller : travellers_) {  // the blocks are lost with the workers
    traveller.blocks.clear();
    traveller.moves.clear();
    traveller.plans_before = 0;
  }
  last_step_ = 0;
  left_out_ = false;
  ++outcome_.epochs;
}

void Simulation::NoteMembers(const StepPlan& plan, Sent& sent) {
  const auto note = [&](SlotId slot, int count, int num_drafts = 0) {
    for (const Request* request : engine_.scheduler().running()) {
      for (const Sequence& sequence : request->sequences) {
        if (sequence.slot == slot)
          sent.members.push_back(
              {request->id, sequence.choice, slot, count, num_drafts, sequence.blocks, sequence.state});
      }
    }
  };
  for (const SlotId slot : plan.decodes) note(slot, 1);
  for (const Draft& draft : plan.drafts) {
    const auto count = static_cast<int>(draft.tokens.size());
    note(draft.slot, 1 + count, count);
  }
  for (const Chunk& chunk : plan.chunks) note(chunk.slot, chunk.count);
  int of_slices = 0;  // tokens of the prompts whose passes end in this step
  for (const Slice& slice : plan.slices) {
    const size_t before = sent.members.size();
    note(slice.slot, slice.completes() ? slice.tokens : 0);
    if (sent.members.size() == before) throw Failure{fmt::format("slot {}: a slice of nobody's pass", slice.slot)};
    of_slices += slice.completes() ? slice.tokens : 0;
    ++outcome_.slices;
  }
  std::set<std::string> clients;
  for (const Request* request : engine_.scheduler().running()) {
    if (request->InPass() && !clients.insert(request->client).second)
      throw Failure{fmt::format("client \"{}\" has two passes", request->client)};
  }
  CheckKeptStates(plan);
  int tokens = 0;
  for (const Member& member : sent.members) tokens += member.count;
  num_computed_ += tokens;
  tokens -= of_slices;
  if (tokens > scenario_.engine.scheduler.max_step_tokens)
    throw Failure{fmt::format("a step of {} tokens, at most {}", tokens, scenario_.engine.scheduler.max_step_tokens)};
  int rows = 0;  // rows that score a prompt, minus one per prompt; the step's budget pays for them, too
  for (const Chunk& chunk : plan.chunks) {
    const auto member = std::ranges::find(sent.members, chunk.slot, &Member::slot);
    const Client& client = *clients_.at(member->request);
    if (client.ask().sampling.num_prompt_logprobs < 0) continue;
    const int end = std::min(chunk.start + chunk.count, static_cast<int>(client.ask().prompt.size()) - 1);
    rows += std::max(0, end - std::max(chunk.start, client.num_scored()) - 1);
  }
  if (tokens + rows > scenario_.engine.scheduler.max_step_tokens)
    throw Failure{fmt::format("a step of {} tokens and {} scored rows", tokens, rows)};
  CheckLeftOut(tokens + rows);
}

/// Checks that a step with drafts does not go beyond a token after which a checkpoint is due, because a state in the
/// middle of a step cannot become a checkpoint.
void Simulation::CheckKeptStates(const StepPlan& plan) const {
  const BlockManager& blocks = engine_.blocks();
  if (!blocks.has_states() || !blocks.prefixes().enabled()) return;
  const int stride = SequenceStates::kCheckpointBlocks * blocks.block_size();
  for (const Request* request : engine_.scheduler().running()) {
    for (const Sequence& sequence : request->sequences) {
      const auto draft = std::ranges::find(plan.drafts, sequence.slot, &Draft::slot);
      if (draft == plan.drafts.end()) continue;
      const int last = sequence.num_computed + static_cast<int>(draft->tokens.size());
      if (last / stride != sequence.num_computed / stride)
        throw Failure{fmt::format("slot {}: a step from token {} to {} skips a state that is kept", draft->slot,
                                  sequence.num_computed, last)};
    }
  }
}

/// Checks that the step is within its token budget. Also checks that when a plan made ahead leaves out a request for
/// lack of blocks, no second plan is made ahead: the next plan must wait for results.
void Simulation::CheckLeftOut(int num_tokens) {
  const int budget = engine_.scheduler().step_budget();
  if (num_tokens > budget) throw Failure{fmt::format("a step of {} tokens, its budget is {}", num_tokens, budget)};
  const bool ahead = sent_.size() > 1, has_budget = num_tokens < budget;
  const auto is_idle = [&](const Request* request) {
    const bool known = std::ranges::all_of(request->sequences, [](const Sequence& s) { return s.finished || s.slot; });
    const bool needs_budget_at_once = request->beams != nullptr;
    const bool takes_turns = engine_.scheduler().takes_turns() && request->NumDecodes() > 0;
    return known && !takes_turns && !needs_budget_at_once && std::ranges::none_of(sent_, [&](const Sent& sent) {
             return std::ranges::find(sent.members, request->id, &Member::request) != sent.members.end();
           });
  };
  if (ahead && left_out_) throw Failure{"somebody for whom there was no room is passed over again"};
  // If there are several clients, and for a while afterwards, some requests pause although there are blocks for them.
  left_out_ = IsAlone() && ahead && has_budget && std::ranges::any_of(engine_.scheduler().running(), is_idle);
}

void Simulation::CheckTables(const SimWorker& worker, const Sent& sent) const {
  for (const Member& member : sent.members) {
    // A worker has given back the blocks of wrong drafts. The next plan shows whether the engine has done so, too.
    const std::vector<BlockId>& blocks = worker.blocks(member.slot);
    const size_t count = member.num_drafts > 0 ? std::min(blocks.size(), member.blocks.size()) : member.blocks.size();
    if (!std::ranges::equal(blocks, std::span(member.blocks).first(count)))
      throw Failure{fmt::format("slot {}: a worker's block table is not the engine's", member.slot)};
    if (worker.state(member.slot) != member.state)
      throw Failure{fmt::format("slot {}: a worker's state is not where the engine's is", member.slot)};
  }
}

/// Marks the request as gone in all outstanding steps.
void Simulation::Forget(RequestId id) {
  for (Sent& sent : sent_) {
    for (Member& member : sent.members) member.request = member.request == id ? 0 : member.request;
  }
}

bool Simulation::IsWanted(const Member& member) const {
  return member.request != 0 && !clients_.at(member.request)->finished(member.choice);
}

/// Takes the result of the oldest plan.
void Simulation::TakeResult() {
  std::vector<SampledToken> tokens;
  const StepTimes times{static_cast<uint32_t>(random_.Between(1000, 60'000)),
                        static_cast<uint32_t>(random_.Below(900))};
  now_ += times.compute_micros * 1e-6;
  if (Fails(scenario_.faults.clock_jumps)) now_ += 10;
  const bool poisoned = std::ranges::any_of(sent_.front().members, [&](const Member& member) {
    return member.request != 0 && member.request == scenario_.faults.poison;
  });
  const bool lost = !AllAnswer(sent_.front(), tokens) || (poisoned && Fails(1));
  if (lost) return LoseGroup();
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  for (Traveller& traveller : travellers_) {
    if (traveller.plans_before > 0 && --traveller.plans_before == 0) Pack(traveller);
  }
  disk_.PlanRan();
  CheckFits(tokens);
  CheckFits(scores_);
  CheckRightGuesses(sent, tokens);
  const std::vector<Draft> guesses = GuessesAfter(sent);
  CheckFits(guesses, sent.guesses);
  for (const SampledToken& token : tokens) Trace(static_cast<uint64_t>(token.token));
  num_drawn_ += static_cast<int64_t>(tokens.size());
  Commit(sent, tokens, times, guesses);
}

void Simulation::LoseGroup() {
  std::set<RequestId> computed;
  for (const Sent& sent : sent_) {
    for (const Member& member : sent.members) {
      if (IsWanted(member)) computed.insert(member.request);
    }
  }
  sent_.clear();
  judge_.GroupLost(computed);
  newcomers_.GroupLost();
  if (Happens(more_, scenario_.faults.no_new_group)) {
    const Ending ending{RequestError::kWorkersLost, "no new workers"};
    turns_.GroupLost();
    pins_.clear();
    Expect(judge_.All(ending), [&] { engine_.FailAll(ending.words); });
  }
  StartEpoch();
}

void Simulation::Commit(const Sent& sent, std::vector<SampledToken>& tokens, const StepTimes& times,
                        const std::vector<Draft>& guesses) {
  const Endings broken = BreakNumbers(sent, tokens);
  for (const Member& member : sent.members) {
    if (!IsWanted(member) || broken.contains(member.request)) continue;
    const auto drawn = static_cast<int>(std::ranges::count(tokens, member.slot, &SampledToken::slot));
    judge_.Computed(member.request, member.num_drafts > 0 ? drawn : member.count, drawn);
    Client& client = *clients_.at(member.request);
    const int delivered = std::min(drawn, client.NumDue(member.choice));
    num_wanted_ += delivered;
    turns_.Drew(member.request, delivered);
    if (member.num_drafts > 0) ExpectDrafts(client, member, std::min(drawn - 1, delivered));
  }
  Expect(broken, [&] { engine_.CommitStep(tokens, times, scores_, guesses); });
  CheckDrafts(sent);
  company_left_ = std::max(0.0, company_left_ - times.compute_micros * 1e-6);
}

/// Sometimes breaks the sampling of one token: its logits are invalid, its grammar takes too much work, or its grammar
/// allows no token.
Endings Simulation::BreakNumbers(const Sent& sent, std::vector<SampledToken>& tokens) {
  if (tokens.empty() || !Happens(more_, scenario_.faults.no_numbers)) return {};
  const SlotId slot = tokens[static_cast<size_t>(more_.Below(static_cast<int64_t>(tokens.size())))].slot;
  // Workers report a broken sample only as the first sample of a sequence, and then report no sample after it.
  const auto first = std::ranges::find(tokens, slot, &SampledToken::slot);
  tokens.erase(std::next(first), std::find_if(first, tokens.end(), [&](auto& t) { return t.slot != slot; }));
  SampledToken& token = *first;
  using Limits = std::numeric_limits<float>;
  constexpr std::tuple<float, RequestError, const char*> kEnds[] = {
      {Limits::infinity(), RequestError::kOverworked, "takes too much work"},
      {-Limits::infinity(), RequestError::kDeadEnd, "allows nothing"},
      {Limits::quiet_NaN(), RequestError::kNoNumbers, "no numbers"}};
  const auto& [mark, error, message] = kEnds[more_.Below(3)];
  token.logprob = mark;
  const auto member = std::ranges::find(sent.members, token.slot, &Member::slot);
  if (!IsWanted(*member)) return {};
  return {{member->request, {error, message}}};
}

/// Checks that the engine accepts answers that fit the plan, and refuses altered ones.
void Simulation::CheckFits(const std::vector<SampledToken>& tokens) {
  if (!engine_.Fits(tokens)) throw Failure{"the answer does not fit the plan"};
  if (tokens.empty() || more_.Below(10) > 0) return;
  const auto at = static_cast<size_t>(more_.Below(static_cast<int64_t>(tokens.size())));
  const auto refuses = [&](auto change) {
    std::vector<SampledToken> other = tokens;
    change(other);
    if (engine_.Fits(other)) throw Failure{"an answer that does not fit the plan is taken for one that does"};
  };
  // An answer that lacks one of a sequence's several tokens also fits the plan, because a worker ends a sequence's
  // tokens before a sample that is not a number. So this check removes a token only if it is the only token of its
  // sequence.
  if (std::ranges::count(tokens, tokens[at].slot, &SampledToken::slot) == 1) {
    refuses([&](auto& other) { other.erase(other.begin() + static_cast<ptrdiff_t>(at)); });
    refuses([&](auto& other) { other[at].slot += 1; });
  }
  refuses([&](auto& other) { other.push_back(other[at]); });
  refuses([&](auto& other) { other[at].token = kVocab; });
  refuses([&](auto& other) { other[at].token = -1; });
  refuses([&](auto& other) { other[at].top.emplace_back(kVocab, 0.0f); });
}

void Simulation::CheckFits(const std::vector<PromptScores>& scores) {
  if (!engine_.Fits(scores)) throw Failure{"the scores do not fit the plan"};
  if (scores.empty() || more_.Below(10) > 0) return;
  const auto at = static_cast<size_t>(more_.Below(static_cast<int64_t>(scores.size())));
  const auto refuses = [&](auto change) {
    std::vector<PromptScores> other = scores;
    change(other);
    if (engine_.Fits(other)) throw Failure{"scores that do not fit the plan are taken for some that do"};
  };
  refuses([&](auto& other) { other.erase(other.begin() + static_cast<ptrdiff_t>(at)); });
  refuses([&](auto& other) { other.push_back(other[at]); });
  refuses([&](auto& other) { other[at].slot += 1; });
  refuses([&](auto& other) { other[at].start += 1; });
  refuses([&](auto& other) { other[at].logprobs.push_back(0); });
  refuses([&](auto& other) { other[at].top.emplace_back(kVocab, 0.0f); });
}

/// Runs the plan on all workers. Returns false when the group is lost: a worker died, refused, or gave no right answer.
bool Simulation::AllAnswer(const Sent& sent, std::vector<SampledToken>& tokens) {
  bool all = true;
  const Faults& faults = scenario_.faults;
  for (SimWorker& worker : workers_) {
    Frame arriving = sent.frame;
    const bool damaged = Fails(faults.frame_is_damaged) && !arriving.body.empty();
    if (damaged) {
      auto& byte = arriving.body[static_cast<size_t>(random_.Below(static_cast<int64_t>(arriving.body.size())))];
      byte ^= static_cast<std::byte>(1u << random_.Below(8));
    }
    StepResult result;
    try {
      result = worker.Execute(arriving);
      if (damaged) throw Failure{"a damaged plan was executed"};
      CheckTables(worker, sent);
      if (Fails(faults.frame_is_repeated)) {
        worker.Execute(arriving);
        throw Failure{"a repeated plan was executed"};
      }
    } catch (const Error& error) {
      if (!damaged && std::string(error.what()).find("step ") != 0)
        throw Failure{std::string("plan refused: ") + error.what()};
      all = false;
      continue;
    } catch (const SimWorker::Violation& violation) {
      throw Failure{violation.what};
    }
    if (Fails(faults.worker_dies) || Fails(faults.answer_is_lost)) all = false;
    if (Fails(faults.answer_is_wrong)) ++result.token_hash;
    all = all && result.plan_hash == sent.frame.header.body_hash && result.token_hash == HashTokens(result.tokens);
    tokens = std::move(result.tokens);
    scores_ = std::move(result.scores);
  }
  return all;
}

}  // namespace quire::sim
