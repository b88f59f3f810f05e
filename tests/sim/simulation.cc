// Simulates the course of a run: clients, operators, the clock, and the invariants that are checked after every event.
#include "tests/sim/simulation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/base/error.h"

namespace quire::sim {

Simulation::Simulation(uint64_t seed, bool aloud)
    : scenario_(MakeScenario(seed)),
      random_(RandomOf(seed, Draws::kEvents)),
      order_(RandomOf(seed, Draws::kOrder)),
      sizes_(RandomOf(seed, Draws::kPoolSizes)),
      moves_(RandomOf(seed, Draws::kMoves)),
      more_(RandomOf(seed, Draws::kMoreEvents)),
      changes_(RandomOf(seed, Draws::kOptions)),
      ways_(RandomOf(seed, Draws::kWays)),
      later_(RandomOf(seed, Draws::kLaterAdapters)),
      guessing_(RandomOf(seed, Draws::kGuesses)),
      stages_(RandomOf(seed, Draws::kStages)),
      proposer_(seed, scenario_.drafts_right),
      engine_(scenario_.engine),
      judge_(scenario_.engine),
      newcomers_(engine_),
      decodes_(engine_),
      watcher_(engine_, scenario_.engine.scheduler.preemption, turns_, judge_, aloud),
      aloud_(aloud),
      decisions_(watcher_),
      disk_(seed, engine_, workers_) {
  engine_.set_observer(&decisions_);
  if (scenario_.engine.drafts.num_tokens > 0) engine_.set_proposer(&proposer_);
  engine_.SetSwapSpeed(static_cast<double>(random_.Below(100)) * 1e-5);
  StartEpoch();
}

Outcome Simulation::Run() {
  while (next_arrival_ < scenario_.arrivals.size() || !engine_.idle() || !sent_.empty() || !travellers_.empty()) {
    if (++outcome_.events > kMaxEvents) throw Failure{"no end in sight"};
    if (engine_.idle() && sent_.empty() && travellers_.empty())
      now_ = std::max(now_, scenario_.arrivals[next_arrival_].seconds);
    Arrive();
    Interfere();
    Travel();
    MoveAdapters();
    disk_.Round(sent_.size(), std::span(scenario_.arrivals).first(next_arrival_));
    Expire();
    Check();
    Act();
    Check();
  }
  CheckRest();
  outcome_.stored = disk_.num_stored;
  outcome_.returned = disk_.num_returned;
  outcome_.lies = disk_.num_lies();
  outcome_.copied = copied_;
  outcome_.brought = watcher_.brought;
  outcome_.returned_states = disk_.num_returned_states;
  outcome_.preemptions = engine_.scheduler().num_preemptions();
  outcome_.drafts_right = drafts_right_;
  outcome_.swap_outs = engine_.scheduler().num_swapped_out();
  outcome_.cached_tokens = engine_.stats().cached_tokens;
  outcome_.dropped = num_drawn_ - num_wanted_;
  outcome_.gave_way = watcher_.gave_way;
  outcome_.stood_back = watcher_.stood_back;
  outcome_.set_aside = watcher_.set_aside;
  outcome_.overtaken = watcher_.overtaken;
  outcome_.newcomers = newcomers_.num_promised;
  outcome_.prompt_newcomers = newcomers_.num_prompt;
  outcome_.floods = scenario_.own_salts;
  outcome_.states = scenario_.engine.blocks.state_blocks > 0;
  outcome_.states_kept = static_cast<int64_t>(engine_.blocks().prefixes().checkpoints().num_kept());
  if (outcome_.states > 0) outcome_.states_begun = outcome_.cached_tokens;
  outcome_.asked = static_cast<int64_t>(scenario_.arrivals.size());
  outcome_.may_fail = scenario_.faults.any();
  outcome_.lost_a_group = outcome_.epochs > 1;
  return outcome_;
}

void Simulation::Arrive() {
  for (; next_arrival_ < scenario_.arrivals.size() && scenario_.arrivals[next_arrival_].seconds <= now_;
       ++next_arrival_) {
    Submit(scenario_.arrivals[next_arrival_], next_arrival_ + 1);
  }
}

void Simulation::Submit(const Arrival& arrival, RequestId id) {
  auto request = std::make_unique<Request>();
  request->id = id;
  request->arrival_seconds = now_;
  request->background = arrival.background;
  request->client = arrival.client;
  request->client_limits = arrival.ask.client_limits;
  request->cache_salt = arrival.cache_salt;
  request->adapter = arrival.ask.adapter;
  request->priority = arrival.priority;
  request->limits = arrival.ask.limits;
  request->sampling = arrival.ask.sampling;
  request->sequences = NewSequences(arrival.ask.prompt, arrival.ask.n);
  if (arrival.ask.beams) {
    request->beams = std::make_unique<BeamSearch>(*arrival.ask.beams, arrival.ask.limits.stop_token_ids,
                                                  arrival.ask.limits.max_tokens);
    request->sampling.num_logprobs = request->beams->num_candidates();
  }
  auto client = std::make_shared<Client>(arrival.ask);
  request->sink = client;
  const std::string right = RightRefusal(arrival.ask, scenario_.engine, engine_.blocks().num_usable());
  const std::optional<std::string> refusal = engine_.Submit(std::move(request));
  if (refusal.has_value() != !right.empty() || (refusal && refusal->find(right) == std::string::npos)) {
    throw Failure{fmt::format("request {} is {}, where it must be {}", id, refusal ? "refused: " + *refusal : "taken",
                              right.empty() ? "taken" : "refused: " + right)};
  }
  ForgetSetAside();
  outcome_.refused += refusal.has_value();
  if (refusal) return;
  judge_.Took(id, arrival.ask, now_);
  const Request& taken = *engine_.requests().at(id);
  taken.set_aside ? turns_.SetAside(taken) : turns_.Joined(taken);
  const bool waits_for_others = taken.background || taken.set_aside;
  if (!waits_for_others && turns_.IsAlone(id) && scenario_.own_salts) newcomers_.Came(id, arrival.ask);
  clients_[id] = std::move(client);
  open_.insert(id);
}

void Simulation::Interfere() {
  const Interference& odds = scenario_.interference;
  if (Happens(random_, odds.cancel) && !clients_.empty()) {
    const auto id = static_cast<RequestId>(random_.Between(1, static_cast<int64_t>(next_arrival_)));
    if (clients_.contains(id)) clients_[id]->cancelled = clients_[id]->cancelled || !clients_[id]->answered();
    engine_.Cancel(id);
    Settle();
  }
  if (Happens(random_, odds.flush)) {
    engine_.FlushCache();
    pins_.clear();
    if (engine_.blocks().prefixes().cache().size() != 0) throw Failure{"something is cached after a flush"};
  }
  if (Happens(random_, odds.pin)) Pin();
  if (Happens(random_, odds.unpin)) {
    const auto id = static_cast<uint64_t>(random_.Between(1, 4));
    if (engine_.Unpin(id) != (pins_.erase(id) > 0)) throw Failure{fmt::format("pin {} is and is not", id)};
  }
  if (Happens(changes_, odds.change)) ChangeOptions();
  if (Happens(more_, odds.abort) && !open_.empty()) {
    auto id = open_.begin();
    std::advance(id, more_.Below(static_cast<int64_t>(open_.size())));
    if (IsTravelling(*id)) return;
    const Ending ending{RequestError::kAborted, "by an operator"};
    Expect({{*id, ending}}, [&, id = *id] { engine_.Abort(id, ending.error, ending.words); });
  }
}

/// Turns the prefix cache on or off, and changes the time limits of requests and the target time of a step, as an
/// operator does.
void Simulation::ChangeOptions() {
  LiveOptions options;
  options.prefix_caching = changes_.Below(2) == 0;
  constexpr double kSeconds[][2] = {{1e9, 1e9}, {3, 30}, {6, 1e9}, {1e9, 10}};
  const auto& seconds = kSeconds[changes_.Below(4)];
  options.max_wait_seconds = seconds[0];
  options.max_request_seconds = seconds[1];
  options.target_step_seconds = changes_.Below(2) == 0 ? 0 : 0.02;
  engine_.ChangeOptions(options);
  judge_.Changed(options);
  ++outcome_.changes;
  if (options.prefix_caching) return;
  pins_.clear();
  if (engine_.blocks().prefixes().cache().size() != 0) throw Failure{"something is cached while nothing shall be"};
}

void Simulation::Pin() {
  const auto& some =
      scenario_.arrivals[static_cast<size_t>(random_.Below(static_cast<int64_t>(scenario_.arrivals.size())))];
  const double expires = now_ + static_cast<double>(random_.Below(60));
  const std::optional<uint64_t> pin = engine_.PinPrefix(some.cache_salt, some.ask.prompt, expires);
  if (pin && !pins_.emplace(*pin, expires).second) throw Failure{fmt::format("pin {} is given twice", *pin)};
  size_t pinned = 0;
  for (const auto& each : engine_.blocks().pins().all()) pinned += each.blocks.size();
  if (pinned > static_cast<size_t>(engine_.blocks().num_usable()) / 2) throw Failure{"pins hold more than half"};
}

void Simulation::Expire() {
  Expect(judge_.Overdue(now_), judge_.MayEnd(now_), [&] { engine_.ExpireOverdue(now_); });
  std::erase_if(pins_, [&](const auto& pin) { return pin.second <= now_; });
}

/// Plans a step, or takes a result, or both.
void Simulation::Act() {
  const bool one_at_a_time = scenario_.plan_ahead == 0;
  const bool plans = sent_.empty() || (static_cast<double>(order_.Below(1000)) < scenario_.plan_ahead * 1000);
  const bool planned = plans && Plan();
  if (!sent_.empty() && (!planned || one_at_a_time)) TakeResult();
}

bool Simulation::Plan() {
  watcher_.BeginPlan();
  decodes_.BeginPlan();
  const bool has_most =
      engine_.num_outstanding() == (scenario_.engine.plan_ahead ? engine_.scheduler().outstanding().most() : 1);
  const StepPlan* plan = engine_.NextPlan(now_);
  constexpr double kCompanyKept = 3;
  if (turns_.NumActive() > 1) company_left_ = kCompanyKept;
  turns_.NoteCached(engine_.requests());
  outcome_.pins_broken += watcher_.pins_broken;
  if (watcher_.pins_broken) pins_.clear();
  if (!has_most) CheckPlaces();  // otherwise the engine did not begin to plan
  if (plan == nullptr) return false;
  ++outcome_.steps;
  outcome_.ahead += !sent_.empty();
  if (plan->step != ++last_step_ || plan->epoch != epoch_) throw Failure{"step numbers have a gap"};
  engine_.scheduler().CheckIntegrity();
  const BlockManager& blocks = engine_.blocks();
  const auto watermark = static_cast<int>(scenario_.engine.blocks.watermark * blocks.num_usable());
  // If there are several clients, some requests are admitted before the other clients' work in the step is known. Then
  // block copies add to the expected blocks, and a window may give back fewer blocks than expected.
  const bool one_client = turns_.NumActive() == 1;
  const int copies = one_client ? 0 : static_cast<int>(plan->copies.size());
  const bool is_exact = one_client || scenario_.engine.blocks.sliding_window == 0;
  int lent = 0;  // blocks of drafts, which are given back before the next plan
  for (const Request* request : engine_.scheduler().running()) {
    for (const Sequence& s : request->sequences)
      lent += std::max(0, static_cast<int>(s.blocks.size()) - blocks.BlocksFor(s.num_planned()));
  }
  if (is_exact && watcher_.admitted_beside_others && !watcher_.preempted_in_step &&
      blocks.num_free() + copies + lent < watermark)
    throw Failure{"admission went below the watermark"};
  const auto& running = engine_.scheduler().running();
  for (const Request* request : running) {
    judge_.Began(request->id);
    if (running.size() > 1 && judge_.IsSuspect(request->id))
      throw Failure{fmt::format("request {} may be what kills workers, and runs beside others", request->id)};
  }
  if (aloud_) Say(*plan);
  CheckMoves(*plan);
  if (std::ranges::any_of(sent_, [](const Sent& sent) { return !sent.guesses.empty(); }))
    throw Failure{"a step is planned before the draft model's guesses came"};
  sent_.push_back({EncodePlan(*plan), {}, plan->guesses});
  NoteMembers(*plan, sent_.back());
  decodes_.Planned(*plan, sent_.size() > 1, IsAlone());
  CheckNewcomers(*plan);
  CheckClientLimits();
  Trace(sent_.back().frame.header.body_hash);
  return true;
}

/// Checks that plans move as many blocks between device and host as swapped requests and the host cache account for,
/// and that a plan with copies to the host moves no blocks of swapped requests.
void Simulation::CheckMoves(const StepPlan& plan) {
  const HostCache& host = engine_.blocks().host_cache();
  swap_outs_ += std::ssize(plan.swap_outs);
  swap_ins_ += std::ssize(plan.swap_ins);
  const int64_t copied = host.num_copied() - std::exchange(copied_, host.num_copied());
  const int64_t brought = watcher_.brought - std::exchange(brought_, watcher_.brought);
  if (copied > 0 && (copied != std::ssize(plan.swap_outs) || brought != std::ssize(plan.swap_ins)))
    throw Failure{fmt::format("{} blocks are copied to the host beside other moves", copied)};
  if (swap_outs_ != watcher_.swapped_out + host.num_copied() || swap_ins_ != watcher_.swapped_in + watcher_.brought ||
      watcher_.brought != host.num_found())
    throw Failure{fmt::format(
        "{} blocks went to the host and {} came back, where requests took {} and {}, copies {}, "
        "and {} copies came back",
        swap_outs_, swap_ins_, watcher_.swapped_out, watcher_.swapped_in, host.num_copied(), host.num_found())};
}

/// Checks that copies on the host hold the keys and values of their tokens, and the states after them.
void Simulation::CheckCopies() const {
  if (!sent_.empty()) return;  // plans that were sent may have to write copies yet
  const BlockManager& blocks = engine_.blocks();
  const PrefixCache& copies = blocks.host_cache().copies();
  for (BlockId block = 1; copies.size() > 0 && block <= blocks.host_pool().num_usable(); ++block) {
    if (!copies.HashOf(block)) continue;
    const std::span<const TokenId> tokens = copies.TokensOf(block);
    for (const SimWorker& worker : workers_) {
      const std::vector<KvValue> values = worker.ReadHost(block);
      for (size_t at = 1; at < values.size(); ++at) {
        if (values[at] != NextKv(values[at - 1], tokens[at]))
          throw Failure{fmt::format("host block {} is a copy of other tokens than it says", block)};
      }
      const std::span<const BlockId> state = blocks.host_cache().StateAfter(block);
      for (size_t word = 0; word < state.size() * values.size(); ++word) {
        if (worker.ReadHost(state[word / values.size()])[word % values.size()] != StateWord(values.back(), word))
          throw Failure{fmt::format("host block {} is part of a state of other tokens", state[word / values.size()])};
      }
    }
  }
}

void Simulation::ForgetSetAside() {
  for (const RequestId id : std::exchange(watcher_.just_set_aside, {})) Forget(id);
}

/// Loads adapters on the workers, or unloads them. The workers drop an adapter only after the plans that were sent
/// before.
void Simulation::MoveAdapters() {
  for (int32_t i = 1; scenario_.later_adapters && i <= kMostAdapters; ++i) {
    const int32_t adapter = kMostListedAdapters + i;
    const bool is_here = std::ranges::count(adapters_, adapter) > 0;
    if (!Happens(later_, is_here ? 0.02 : 0.2) || (is_here && !sent_.empty())) continue;
    if (is_here) {
      std::erase(adapters_, adapter);
      engine_.AdapterGone(adapter);
      ForgetSetAside();
    } else {
      adapters_.push_back(adapter);
      engine_.AdapterCame(adapter);
      ++outcome_.adapters;
      // Requests that come back into the engine go before other requests of their clients, for which Newcomers' promise
      // then ends.
      for (const auto& [id, request] : engine_.requests()) {
        if (request->adapter == adapter) LeaveNewcomers(request->client);
      }
    }
    for (SimWorker& worker : workers_) worker.SetAdapters(adapters_);
  }
}

/// Ends Newcomers' promise for the client's waiting requests, because the client now has several requests.
void Simulation::LeaveNewcomers(const std::string& client) {
  for (const RequestId other : open_) {
    if (turns_.ClientOf(other) == client) newcomers_.Left(other);
  }
}

/// Checks which requests are set aside, neither waiting nor running. A batch's request is set aside exactly while the
/// engine has a request of another kind. A request with a later adapter is set aside exactly while the workers lack the
/// adapter.
void Simulation::CheckPlaces() const {
  const auto& requests = engine_.requests();
  const bool others = std::ranges::any_of(requests, [](const auto& entry) { return !entry.second->background; });
  const auto queued = engine_.scheduler().queue().All();
  std::set<const Request*> present(queued.begin(), queued.end());
  present.insert(engine_.scheduler().running().begin(), engine_.scheduler().running().end());
  for (const auto& [id, request] : requests) {
    const bool lacks = request->adapter > kMostListedAdapters && std::ranges::count(adapters_, request->adapter) == 0;
    const bool aside = (request->background && others) || lacks;
    if (present.contains(request.get()) == aside)
      throw Failure{fmt::format("request {}{}{} is {}in the scheduler", id, request->background ? " of a batch" : "",
                                lacks ? " without its adapter" : "", aside ? "" : "not ")};
  }
}

/// Checks the promise to newcomers (Newcomers). In runs with shared prefixes, the promise does not cover a request that
/// waits until another request has computed the prefix that both share.
void Simulation::CheckNewcomers(const StepPlan& plan) {
  std::set<RequestId> draws;
  bool may_give_way = true;
  for (const Request* request : engine_.scheduler().running()) {
    may_give_way = may_give_way && !watcher_.IsProtected(request->id);
    for (const Sequence& sequence : request->sequences) {
      const bool is_decode =
          sequence.slot && (std::ranges::find(plan.decodes, *sequence.slot) != plan.decodes.end() ||
                            std::ranges::find(plan.drafts, *sequence.slot, &Draft::slot) != plan.drafts.end());
      const auto ends_prompt = [&](const Chunk& chunk) {
        return sequence.slot == chunk.slot && chunk.start + chunk.count >= sequence.num_tokens();
      };
      const auto ends_pass = [&](const Slice& slice) { return sequence.slot == slice.slot && slice.completes(); };
      if (is_decode || std::ranges::any_of(plan.chunks, ends_prompt) || std::ranges::any_of(plan.slices, ends_pass))
        draws.insert(request->id);
    }
  }
  for (const RequestId id : open_) may_give_way = may_give_way && !judge_.IsSuspect(id);
  newcomers_.Planned(draws, turns_.NumActive(), may_give_way);
}

/// Checks that running requests are within their clients' own limits.
void Simulation::CheckClientLimits() const {
  std::map<std::string, std::pair<int, int64_t>> has;  // sequences, and blocks at full length
  for (const Request* request : engine_.scheduler().running()) {
    const Ask& ask = clients_.at(request->id)->ask();
    auto& [sequences, blocks] = has[request->client];
    sequences += ask.n;
    blocks += BlocksAtLongest(ask, scenario_.engine);
    const ClientLimits& own = ask.client_limits;
    if ((own.max_running_seqs > 0 && sequences > own.max_running_seqs) ||
        (own.max_blocks > 0 && blocks > own.max_blocks))
      throw Failure{fmt::format("client \"{}\" runs {} sequences of {} blocks", request->client, sequences, blocks)};
  }
}

void Simulation::Settle() {
  for (auto it = open_.begin(); it != open_.end();) {
    const RequestId id = *it;
    const Client& client = *clients_.at(id);
    if (!client.over() || IsTravelling(id)) {
      ++it;
      continue;
    }
    Settle(id, client);
    it = open_.erase(it);
  }
}

void Simulation::Settle(RequestId id, const Client& client) {
  if (client.ended()) {
    const RequestError error = client.ended()->error;
    Trace(id << 8 | static_cast<uint64_t>(error));
    const bool marked =
        error == RequestError::kNoNumbers || error == RequestError::kOverworked || error == RequestError::kDeadEnd;
    ++(error == RequestError::kNoRoom     ? outcome_.no_room
       : error == RequestError::kTimedOut ? outcome_.overtime
       : error == RequestError::kDeadline ? outcome_.past_deadline
       : error == RequestError::kAborted  ? outcome_.aborted
       : marked                           ? outcome_.no_numbers
                                          : outcome_.given_up);
  } else if (client.cancelled) {
    ++outcome_.cancelled;
  } else {
    ++outcome_.answered;
    outcome_.scored += client.num_scored();
    outcome_.pooled += client.num_pooled();
    if (scenario_.engine.scheduler.whole_prompts()) outcome_.whole += client.num_pooled();
    judge_.CheckWork(id, client.cached_tokens());
  }
  Forget(id);
  newcomers_.Left(id);
  judge_.Ended(id);
  turns_.Left(id);
}

void Simulation::Check() {
  engine_.scheduler().CheckIntegrity();
  if (engine_.num_outstanding() != static_cast<int>(sent_.size()))
    throw Failure{fmt::format("{} plans are outstanding, not {}", sent_.size(), engine_.num_outstanding())};
  for (const auto& [id, client] : clients_) {
    const bool live = engine_.requests().contains(id) || (IsTravelling(id) && !client->cancelled);
    if (live == client->over()) throw Failure{fmt::format("request {} is lost", id)};
  }
  CheckCopies();
  turns_.Compare(engine_.scheduler().queue());
  CheckPins();
}

void Simulation::CheckPins() const {
  const auto& pins = engine_.blocks().pins().all();
  const bool same = pins.size() == pins_.size() &&
                    std::ranges::all_of(pins, [&](const PrefixPin& pin) { return pins_.contains(pin.id); });
  if (!same) throw Failure{fmt::format("{} pins hold blocks, {} should", pins.size(), pins_.size())};
}

void Simulation::CheckRest() {
  EndStragglers(true);
  disk_.End();
  engine_.ExpireOverdue(now_ + 100);
  const BlockManager& blocks = engine_.blocks();
  if (blocks.num_free() != blocks.num_usable() || blocks.host_pool().num_held() != 0 || !blocks.pins().all().empty())
    throw Failure{"blocks are held when nobody is there"};
  if (engine_.scheduler().num_running() + engine_.scheduler().num_waiting() != 0) throw Failure{"somebody is left"};
  if (!open_.empty()) throw Failure{fmt::format("request {} got no end", *open_.begin())};
  CheckStats();
}

void Simulation::CheckStats() const {
  const EngineStats& stats = engine_.stats();
  if (stats.steps != outcome_.steps || stats.computed_tokens != num_computed_ || stats.generated_tokens != num_wanted_)
    throw Failure{fmt::format("statistics: {} steps, {} tokens computed, {} generated, where {}, {} and {} were",
                              stats.steps, stats.computed_tokens, stats.generated_tokens, outcome_.steps, num_computed_,
                              num_wanted_)};
  int64_t prompts = 0, stopped = 0, complete = 0;
  for (const auto& [id, client] : clients_) {
    prompts += static_cast<int64_t>(client->ask().prompt.size());
    stopped += client->num_finished(FinishReason::kStop);
    complete += client->num_finished(FinishReason::kLength);
  }
  if (stats.prompt_tokens != prompts || stats.finished_stop != stopped || stats.finished_length != complete)
    throw Failure{fmt::format("statistics: {} prompt tokens, {} choices stopped, {} complete, where {}, {} and {} were",
                              stats.prompt_tokens, stats.finished_stop, stats.finished_length, prompts, stopped,
                              complete)};
}

void Simulation::Say(const StepPlan& plan) const {
  fmt::print("{:.3f} s: step {}.{}: {} decodes, drafts:", now_, plan.epoch, plan.step, plan.decodes.size());
  for (const Draft& draft : plan.drafts) fmt::print(" slot {} +{}", draft.slot, draft.tokens.size());
  fmt::print("; chunks:");
  for (const Chunk& chunk : plan.chunks) fmt::print(" slot {} {}+{}", chunk.slot, chunk.start, chunk.count);
  fmt::print("; {} branches, {} out, {} in, {} copies, {} blocks free, {} running\n", plan.branches.size(),
             plan.swap_outs.size(), plan.swap_ins.size(), plan.copies.size(), engine_.blocks().num_free(),
             engine_.scheduler().num_running());
}

Outcome Simulate(uint64_t seed) { return Simulation(seed, false).Run(); }

void Narrate(uint64_t seed) {
  const Scenario scenario = MakeScenario(seed);
  const EngineOptions& o = scenario.engine;
  fmt::print(
      "{} blocks of {}, {} of a state, {} on the host, window {}, cache {} ({} bits), {} tokens a step, {} sequences, "
      "{} stages, {} of the steps ahead, {} s to wait, {} s in all, {} epochs may be lost alone\n",
      o.blocks.num_blocks - 1, o.blocks.block_size, o.blocks.state_blocks, o.blocks.num_host_blocks,
      o.blocks.sliding_window, o.blocks.prefix_caching, o.blocks.hash_bits, o.scheduler.max_step_tokens,
      o.scheduler.max_running, o.scheduler.num_stages, scenario.plan_ahead, o.max_wait_seconds, o.max_request_seconds,
      o.max_lost_epochs);
  for (size_t i = 0; i < scenario.arrivals.size(); ++i) {
    const Arrival& a = scenario.arrivals[i];
    fmt::print("request {} at {:.3f} s: {} + {} tokens, n {}{}, client \"{}\", priority {}\n", i + 1, a.seconds,
               a.ask.prompt.size(), a.ask.limits.max_tokens, a.ask.n, a.ask.beams ? " (beams)" : "", a.client,
               a.priority);
  }
  Simulation(seed, true).Run();
}

}  // namespace quire::sim
