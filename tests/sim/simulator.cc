#include "tests/sim/simulator.h"

#include <deque>
#include <map>
#include <set>

#include "comm/error.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_worker.h"

namespace quire::sim {

namespace {

/// One client: compares what it gets with what is right, as it comes.
class Client : public RequestSink {
 public:
  explicit Client(const Ask& ask) : ask_(ask), right_(RightAnswers(ask)), got_(right_.size()) {}

  bool OnToken(const TokenEvent& event) override {
    Choice& choice = At(event.choice);
    const Answer& right = right_[static_cast<size_t>(event.choice)];
    if (choice.tokens == static_cast<int>(right.tokens.size()) ||
        event.token != right.tokens[static_cast<size_t>(choice.tokens)]) {
      throw Failure{fmt::format("choice {}: token {} is wrong", event.choice, choice.tokens)};
    }
    ++choice.tokens;
    return ask_.sink_stops_after > 0 && choice.tokens >= ask_.sink_stops_after;
  }
  void OnFinish(int index, FinishReason reason) override {
    Choice& choice = At(index);
    const Answer& right = right_[static_cast<size_t>(index)];
    if (choice.tokens != static_cast<int>(right.tokens.size()) || reason != right.reason) {
      throw Failure{fmt::format("choice {} ends after {} of {} tokens, or for another reason", index, choice.tokens,
                                right.tokens.size())};
    }
    choice.finished = true;
    ++finished_;
  }
  void OnError(RequestError, const std::string&) override {
    if (failed_ || answered()) throw Failure{"an error after the end"};
    failed_ = true;
  }

  bool Abandoned() const override { return cancelled; }
  bool answered() const { return failed_ || finished_ == got_.size(); }
  bool failed() const { return failed_; }
  bool cancelled = false;

 private:
  struct Choice {
    int tokens = 0;
    bool finished = false;
  };
  Choice& At(int index) {
    if (index < 0 || index >= static_cast<int>(got_.size())) throw Failure{fmt::format("no choice {}", index)};
    Choice& choice = got_[static_cast<size_t>(index)];
    if (choice.finished || failed_ || cancelled)
      throw Failure{fmt::format("choice {} hears more after its end", index)};
    return choice;
  }

  Ask ask_;
  std::vector<Answer> right_;
  std::vector<Choice> got_;
  size_t finished_ = 0;
  bool failed_ = false;
};

/// Follows the decisions: who may be preempted for whom, and what admission leaves free.
class Watcher : public DecisionLog {
 public:
  Watcher(const Engine& engine, bool aloud) : engine_(engine), aloud_(aloud) {}
  void OnDecision(const Decision& d) override {
    if (aloud_) fmt::print("  {}\n", Describe(d));
    const bool preempted = d.kind == DecisionKind::kPreemptedRecompute || d.kind == DecisionKind::kPreemptedSwap;
    if (preempted) {
      const Request &victim = *engine_.requests().at(d.request), &cause = *engine_.requests().at(d.cause);
      if (Senior(victim, cause)) throw Failure{fmt::format("request {} is preempted for a junior", d.request)};
      if (&victim == engine_.scheduler().running().front()) throw Failure{"the most senior request is preempted"};
      if (engine_.num_outstanding() > 0) throw Failure{"somebody is preempted while a step is outstanding"};
      preempted_in_step = true;
    }
    const bool admitted =
        d.kind == DecisionKind::kAdmitted || d.kind == DecisionKind::kReadmitted || d.kind == DecisionKind::kSwappedIn;
    if (admitted && engine_.scheduler().num_running() > 1) admitted_beside_others = true;
    if (d.kind == DecisionKind::kFinished && !ended.insert({d.request, d.a}).second) throw Failure{"ends twice"};
  }

  bool preempted_in_step = false, admitted_beside_others = false;
  std::set<std::pair<RequestId, int64_t>> ended;

 private:
  const Engine& engine_;
  bool aloud_;
};

/// The engine's observer that passes decisions on; inputs are of no interest here.
class DecisionsOnly : public EngineObserver {
 public:
  explicit DecisionsOnly(Watcher& watcher) : watcher_(watcher) {}
  void OnDecision(const Decision& decision) override { watcher_.OnDecision(decision); }
  void BeforePlan(double) override {}
  void OnSubmit(const Request&, bool) override {}
  void OnCancel(RequestId) override {}
  void OnPlan(double, const StepPlan&) override {}
  void OnNoPlan(double) override {}
  void OnCommit(const std::vector<SampledToken>&, StepTimes, const std::vector<StoppedChoice>&) override {}
  void OnExpire(double) override {}
  void OnEpoch(EpochId, const PoolSizes&) override {}
  void OnSwapSpeed(double) override {}
  void OnFlush() override {}
  void OnPin(const std::string&, const std::vector<TokenId>&, double) override {}
  void OnUnpin(uint64_t) override {}
  void OnDepart(RequestId, uint64_t, int) override {}
  void OnReserve(uint64_t, int) override {}
  void OnReleaseTicket(uint64_t) override {}
  void OnAdopt(const Request&, uint64_t, std::span<const BlockId>) override {}

 private:
  Watcher& watcher_;
};

class Simulation {
 public:
  Simulation(uint64_t seed, bool aloud)
      : scenario_(MakeScenario(seed)),
        random_(Mix(seed, 2)),
        order_(Mix(seed, 4)),
        sizes_(Mix(seed, 5)),
        moves_(Mix(seed, 7)),
        engine_(scenario_.engine),
        watcher_(engine_, aloud),
        aloud_(aloud),
        decisions_(watcher_) {
    engine_.set_observer(&decisions_);
    engine_.SetSwapSpeed(static_cast<double>(random_.Below(100)) * 1e-5);
    StartEpoch();
  }

  Outcome Run() {
    while (next_arrival_ < scenario_.arrivals.size() || !engine_.idle() || !sent_.empty() || !travellers_.empty()) {
      if (++outcome_.events > kMaxEvents) throw Failure{"no end in sight"};
      if (engine_.idle() && sent_.empty() && travellers_.empty())
        now_ = std::max(now_, scenario_.arrivals[next_arrival_].seconds);
      Arrive();
      Interfere();
      Travel();
      engine_.ExpireOverdue(now_);
      Check();
      Act();
      Check();
    }
    CheckRest();
    outcome_.preemptions = engine_.scheduler().num_preemptions();
    outcome_.swap_outs = engine_.scheduler().num_swapped_out();
    outcome_.cached_tokens = engine_.stats().cached_tokens;
    outcome_.dropped = num_drawn_ - engine_.stats().generated_tokens;
    return outcome_;
  }

 private:
  static constexpr int64_t kMaxEvents = 30'000, kMaxFaultyEpochs = 20;

  /// Faults end at some time, so that everybody can be answered.
  bool Fails(double probability) { return outcome_.epochs < kMaxFaultyEpochs && Happens(probability); }
  bool Happens(double probability) {
    return probability > 0 && static_cast<double>(random_.Below(1'000'000)) < probability * 1e6;
  }
  void Trace(uint64_t value) { outcome_.trace_hash = Mix(outcome_.trace_hash, value); }

  PlanLimits Limits() const {
    const EngineOptions& o = scenario_.engine;
    const PoolSizes pools = engine_.blocks().sizes();
    return {pools.num_blocks,
            pools.num_host_blocks + 1,
            o.blocks.block_size,
            o.scheduler.max_running,
            o.scheduler.max_step_tokens,
            o.max_model_len,
            o.vocab_size};
  }

  PoolSizes PoolsOfNextEpoch() {
    const BlockManagerOptions& first = scenario_.engine.blocks;
    if (static_cast<double>(sizes_.Below(1000)) >= scenario_.resize * 1000) return engine_.blocks().sizes();
    const int least = std::max(2, engine_.BlocksNeeded());
    return {static_cast<int>(sizes_.Between(least, std::max(least, 2 * first.num_blocks))),
            static_cast<int>(sizes_.Between(0, 2 * first.num_host_blocks))};
  }

  void StartEpoch() {
    const size_t before = engine_.requests().size();
    engine_.StartEpoch(++epoch_, PoolsOfNextEpoch());
    if (engine_.options().max_lost_epochs == 0 && engine_.requests().size() != before)
      throw Failure{"a request was given up although the new pools hold it"};
    workers_.assign(static_cast<size_t>(scenario_.num_workers),
                    SimWorker(Limits(), scenario_.engine.blocks.sliding_window));
    sent_.clear();
    for (Traveller& traveller : travellers_) {  // the blocks are gone with the workers
      traveller.host_blocks.clear();
      traveller.moves.clear();
      traveller.plans_before = 0;
    }
    last_step_ = 0;
    ++outcome_.epochs;
  }

  void Arrive() {
    for (; next_arrival_ < scenario_.arrivals.size() && scenario_.arrivals[next_arrival_].seconds <= now_;
         ++next_arrival_) {
      const Arrival& arrival = scenario_.arrivals[next_arrival_];
      auto request = std::make_unique<Request>();
      request->id = next_arrival_ + 1;
      request->arrival_seconds = now_;
      request->client = arrival.client;
      request->cache_salt = arrival.cache_salt;
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
      const RequestId id = request->id;
      if (!engine_.Submit(std::move(request))) clients_[id] = std::move(client);
    }
  }

  void Interfere() {
    const Interference& odds = scenario_.interference;
    if (Happens(odds.cancel) && !clients_.empty()) {
      const auto id = static_cast<RequestId>(random_.Between(1, static_cast<int64_t>(next_arrival_)));
      if (clients_.contains(id)) clients_[id]->cancelled = clients_[id]->cancelled || !clients_[id]->answered();
      engine_.Cancel(id);
    }
    if (Happens(odds.flush)) engine_.FlushCache();
    if (Happens(odds.pin)) {
      const auto& some =
          scenario_.arrivals[static_cast<size_t>(random_.Below(static_cast<int64_t>(scenario_.arrivals.size())))];
      engine_.PinPrefix(some.cache_salt, some.ask.prompt, now_ + static_cast<double>(random_.Below(60)));
    }
    if (Happens(odds.unpin)) engine_.Unpin(static_cast<uint64_t>(random_.Between(1, 4)));
  }

  /// A request on its way to another engine; here both are the same one, under two tickets.
  struct Traveller {
    std::unique_ptr<Request> request;
    uint64_t from, to;  // tickets
    std::vector<BlockId> host_blocks;
    std::vector<BlockCopyPair> moves;
    size_t plans_before = 0;  // that the workers run before they move the blocks
  };

  void Travel() {
    for (size_t i = 0; i < travellers_.size();) {
      const bool packed = travellers_[i].plans_before == 0 || travellers_[i].host_blocks.empty();
      if (!packed || moves_.Below(3) > 0) {
        ++i;
        continue;
      }
      Traveller traveller = std::move(travellers_[i]);
      travellers_.erase(travellers_.begin() + static_cast<ptrdiff_t>(i));
      ComeBack(std::move(traveller));
    }
    const bool leaves = static_cast<double>(moves_.Below(1000)) < scenario_.interference.migrate * 1000;
    if (!leaves || engine_.requests().empty() || outcome_.events > kMaxEvents / 2) return;
    auto it = engine_.requests().begin();
    std::advance(it, moves_.Below(static_cast<int64_t>(engine_.requests().size())));
    const int blocks = engine_.scheduler().BlocksOf(*it->second);
    Traveller traveller{nullptr, ++last_ticket_, ++last_ticket_, {}, {}, sent_.size()};
    const bool with_blocks =
        moves_.Below(4) > 0 && engine_.Reserve(traveller.to, blocks + static_cast<int>(moves_.Below(3)));
    auto departure = engine_.Depart(it->first, with_blocks ? traveller.from : 0, blocks);
    traveller.request = std::move(departure->request);
    traveller.host_blocks = std::move(departure->host_blocks);
    traveller.moves = std::move(departure->moves);
    if (traveller.plans_before == 0) Pack(traveller);
    travellers_.push_back(std::move(traveller));
  }

  void Pack(const Traveller& traveller) {
    for (SimWorker& worker : workers_) worker.SwapOut(traveller.moves);
  }

  void ComeBack(Traveller traveller) {
    const RequestId id = traveller.request->id;
    const bool breaks = moves_.Below(5) == 0;
    const auto* holding = engine_.blocks().FindHolding(traveller.to);
    if (!breaks && holding != nullptr && !traveller.host_blocks.empty()) {
      std::vector<BlockCopyPair> pairs;
      for (size_t i = 0; i < traveller.host_blocks.size(); ++i)
        pairs.push_back({traveller.host_blocks[i], holding->blocks[i]});
      for (SimWorker& worker : workers_) worker.CopyHost(pairs);
    } else {
      traveller.host_blocks.clear();
    }
    if (aloud_) fmt::print("  request {} comes back with {} blocks\n", id, traveller.host_blocks.size());
    ++(traveller.host_blocks.empty() ? outcome_.moved_bare : outcome_.moved);
    engine_.ReleaseTicket(traveller.from);
    if (engine_.Adopt(traveller.request, traveller.to, traveller.host_blocks))
      traveller.request->sink->OnError(RequestError::kWorkersLost, "");
    engine_.ReleaseTicket(traveller.to);
  }

  bool IsTravelling(RequestId id) const {
    return std::ranges::any_of(travellers_, [&](const Traveller& t) { return t.request->id == id; });
  }

  /// A step is planned, or a result comes in, or both.
  void Act() {
    const bool one_at_a_time = scenario_.plan_ahead == 0;
    const bool plans = sent_.empty() || (static_cast<double>(order_.Below(1000)) < scenario_.plan_ahead * 1000);
    const bool planned = plans && Plan();
    if (!sent_.empty() && (!planned || one_at_a_time)) TakeResult();
  }

  bool Plan() {
    watcher_.preempted_in_step = watcher_.admitted_beside_others = false;
    const StepPlan* plan = engine_.NextPlan(now_);
    if (plan == nullptr) return false;
    ++outcome_.steps;
    outcome_.ahead += !sent_.empty();
    if (plan->step != ++last_step_ || plan->epoch != epoch_) throw Failure{"step numbers have a gap"};
    engine_.scheduler().CheckIntegrity();
    const BlockManager& blocks = engine_.blocks();
    if (watcher_.admitted_beside_others && !watcher_.preempted_in_step && blocks.num_free() < blocks.watermark_blocks())
      throw Failure{"admission went below the watermark"};
    if (aloud_) Say(*plan);
    sent_.push_back(EncodePlan(*plan));
    Trace(sent_.back().header.body_hash);
    return true;
  }

  /// Of the oldest plan.
  void TakeResult() {
    const Frame frame = std::move(sent_.front());
    sent_.pop_front();
    std::vector<SampledToken> tokens;
    const StepTimes times{static_cast<uint32_t>(random_.Between(1000, 60'000)),
                          static_cast<uint32_t>(random_.Below(900))};
    now_ += times.compute_micros * 1e-6;
    if (Fails(scenario_.faults.clock_jumps)) now_ += 10;
    const bool lost = !AllAnswer(frame, tokens);
    if (lost) return StartEpoch();
    for (Traveller& traveller : travellers_) {
      if (traveller.plans_before > 0 && --traveller.plans_before == 0) Pack(traveller);
    }
    if (!engine_.Fits(tokens)) throw Failure{"the answer does not fit the plan"};
    for (const SampledToken& token : tokens) Trace(static_cast<uint64_t>(token.token));
    num_drawn_ += static_cast<int64_t>(tokens.size());
    engine_.CommitStep(tokens, times);
  }

  /// False when the group is lost: a worker died, refused, or did not answer as all must.
  bool AllAnswer(const Frame& frame, std::vector<SampledToken>& tokens) {
    bool all = true;
    const Faults& faults = scenario_.faults;
    for (SimWorker& worker : workers_) {
      Frame arriving = frame;
      const bool damaged = Fails(faults.frame_is_damaged) && !arriving.body.empty();
      if (damaged) {
        auto& byte = arriving.body[static_cast<size_t>(random_.Below(static_cast<int64_t>(arriving.body.size())))];
        byte ^= static_cast<std::byte>(1u << random_.Below(8));
      }
      StepResult result;
      try {
        result = worker.Execute(arriving);
        if (damaged) throw Failure{"a damaged plan was executed"};
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
      all = all && result.plan_hash == frame.header.body_hash && result.token_hash == HashTokens(result.tokens);
      tokens = std::move(result.tokens);
    }
    return all;
  }

  void Check() {
    engine_.scheduler().CheckIntegrity();
    if (engine_.num_outstanding() != static_cast<int>(sent_.size()))
      throw Failure{fmt::format("{} plans are outstanding, not {}", sent_.size(), engine_.num_outstanding())};
    for (const auto& [id, client] : clients_) {
      const bool live = engine_.requests().contains(id) || (IsTravelling(id) && !client->cancelled);
      if (live == (client->answered() || client->cancelled)) throw Failure{fmt::format("request {} is lost", id)};
    }
  }

  void CheckRest() {
    engine_.ExpireOverdue(now_ + 100);
    const BlockManager& blocks = engine_.blocks();
    if (blocks.num_free() != blocks.num_usable() || blocks.host_pool().num_held() != 0 || !blocks.pins().empty())
      throw Failure{"blocks are held when nobody is there"};
    if (engine_.scheduler().num_running() + engine_.scheduler().num_waiting() != 0) throw Failure{"somebody is left"};
    for (const auto& [id, client] : clients_) outcome_.finished += client->answered() && !client->failed();
    for (const auto& [name, account] : engine_.scheduler().queue().clients()) {
      if (account.active != 0) throw Failure{"a client without requests counts as active"};
    }
  }

  void Say(const StepPlan& plan) const {
    fmt::print("{:.3f} s: step {}.{}: {} decodes, chunks:", now_, plan.epoch, plan.step, plan.decodes.size());
    for (const Chunk& chunk : plan.chunks) fmt::print(" slot {} {}+{}", chunk.slot, chunk.start, chunk.count);
    fmt::print("; {} branches, {} out, {} in, {} copies, {} blocks free, {} running\n", plan.branches.size(),
               plan.swap_outs.size(), plan.swap_ins.size(), plan.copies.size(), engine_.blocks().num_free(),
               engine_.scheduler().num_running());
  }

  Scenario scenario_;
  test::Random random_, order_, sizes_, moves_;
  Engine engine_;
  Watcher watcher_;
  bool aloud_;
  DecisionsOnly decisions_;
  std::vector<SimWorker> workers_;
  std::deque<Frame> sent_;  // plans without a result yet, oldest first
  std::map<RequestId, std::shared_ptr<Client>> clients_;
  std::vector<Traveller> travellers_;
  uint64_t last_ticket_ = 0;
  size_t next_arrival_ = 0;
  double now_ = 0;
  EpochId epoch_ = 0;
  StepId last_step_ = 0;
  int64_t num_drawn_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome Simulate(uint64_t seed) { return Simulation(seed, false).Run(); }

void Narrate(uint64_t seed) {
  const Scenario scenario = MakeScenario(seed);
  const EngineOptions& o = scenario.engine;
  fmt::print(
      "{} blocks of {}, {} on the host, window {}, cache {} ({} bits), {} tokens a step, {} sequences, "
      "{} of the steps ahead\n",
      o.blocks.num_blocks - 1, o.blocks.block_size, o.blocks.num_host_blocks, o.blocks.sliding_window,
      o.blocks.prefix_caching, o.blocks.hash_bits, o.scheduler.max_step_tokens, o.scheduler.max_running,
      scenario.plan_ahead);
  for (size_t i = 0; i < scenario.arrivals.size(); ++i) {
    const Arrival& a = scenario.arrivals[i];
    fmt::print("request {} at {:.3f} s: {} + {} tokens, n {}{}, client \"{}\", priority {}\n", i + 1, a.seconds,
               a.ask.prompt.size(), a.ask.limits.max_tokens, a.ask.n, a.ask.beams ? " (beams)" : "", a.client,
               a.priority);
  }
  Simulation(seed, true).Run();
}

}  // namespace quire::sim
