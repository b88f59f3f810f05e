#include "tests/bench/memory_policies.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/core/engine/engine.h"
#include "tests/bench/contiguous_pool.h"

namespace quire {

namespace {

/// A step that is planned and not yet committed.
struct PlannedStep {
  int64_t computed_tokens = 0;
  int64_t context_tokens = 0;  // keys and values that attention reads, those of the step included
  int batch = 0;               // number of sequences that hold memory
  MemoryUsage usage;           // usage after the step
};

/// A server under one policy. A request is identified by its index in the trace.
class Server {
 public:
  virtual ~Server() = default;
  virtual void Submit(size_t index, const TraceRequest& request) = 0;
  virtual PlannedStep Plan(double now) = 0;
  /// Ends the planned step. Returns the requests that got their last token.
  virtual std::vector<size_t> Commit() = 0;
  virtual int64_t preemptions() const = 0;
};

class ContiguousServer : public Server {
 public:
  ContiguousServer(KvPolicy policy, const MemorySetup& setup)
      : policy_(policy), setup_(setup), pool_(setup.capacity_tokens) {}

  void Submit(size_t index, const TraceRequest& request) override {
    Member member{index, request.prompt_tokens, FinalSlots(request), RegionOf(request)};
    if (member.region > setup_.capacity_tokens) {
      Fail("a region of {} slots ({}) does not fit the KV cache of {}", member.region, NameOf(policy_),
           setup_.capacity_tokens);
    }
    waiting_.push_back(member);
  }

  PlannedStep Plan(double) override {
    PlannedStep step;
    int budget = setup_.max_step_tokens;
    for (Member& member : running_) Schedule(member, budget, step);
    Admit(budget, step);
    step.batch = static_cast<int>(running_.size());
    for (const Member& member : running_) {
      const int live = member.computed + member.scheduled;
      step.usage.live += live;
      step.usage.reserved += member.final_slots - live;
      step.usage.internal += static_cast<double>(member.region - member.final_slots);
    }
    (HeadLacksOnlyOnePiece() ? step.usage.external : step.usage.free) = static_cast<double>(pool_.num_free());
    return step;
  }

  std::vector<size_t> Commit() override {
    for (Member& member : running_) {
      member.computed += std::exchange(member.scheduled, 0);
      if (member.computed == member.known) ++member.known;  // all tokens are computed, so the next one is sampled
    }
    std::vector<size_t> finished;
    std::erase_if(running_, [&](const Member& member) {
      if (member.computed < member.final_slots) return false;
      finished.push_back(member.index);
      pool_.Free(member.begin);
      return true;
    });
    return finished;
  }

  int64_t preemptions() const override { return 0; }

 private:
  struct Member {
    size_t index;
    int known;           // prompt tokens and sampled tokens
    int final_slots;     // tokens that are computed when the request ends
    int64_t region;      // size in slots
    int64_t begin = -1;  // first slot
    int computed = 0, scheduled = 0;
  };

  /// Returns the number of slots of a finished request. The last sampled token needs no slot, because it is not
  /// computed.
  static int FinalSlots(const TraceRequest& request) { return request.prompt_tokens + request.output_tokens - 1; }

  int64_t RegionOf(const TraceRequest& request) const {
    if (policy_ == KvPolicy::kReserveMax) return setup_.max_model_len;
    if (policy_ == KvPolicy::kOracle) return FinalSlots(request);
    const auto output = static_cast<int>(std::bit_ceil(static_cast<unsigned>(request.output_tokens)));
    return std::min(request.prompt_tokens + output, setup_.max_model_len);
  }

  static void Schedule(Member& member, int& budget, PlannedStep& step) {
    member.scheduled = std::min(budget, member.known - member.computed);
    budget -= member.scheduled;
    if (member.scheduled == 0) return;
    step.computed_tokens += member.scheduled;
    step.context_tokens += member.computed + member.scheduled;
  }

  bool WantsMemory() const { return !waiting_.empty() && static_cast<int>(running_.size()) < setup_.max_running; }

  void Admit(int& budget, PlannedStep& step) {
    while (WantsMemory() && budget > 0) {
      Member& head = waiting_.front();
      const auto begin = pool_.Allocate(head.region);
      if (!begin) return;
      head.begin = *begin;
      Schedule(running_.emplace_back(head), budget, step);
      waiting_.pop_front();
    }
  }

  /// Returns true under external fragmentation: the free slots suffice for the first waiting request, but are not in
  /// one piece.
  bool HeadLacksOnlyOnePiece() const {
    return WantsMemory() && pool_.num_free() >= waiting_.front().region &&
           pool_.largest_hole() < waiting_.front().region;
  }

  KvPolicy policy_;
  MemorySetup setup_;
  ContiguousPool pool_;
  std::deque<Member> waiting_;
  std::vector<Member> running_;  // oldest first
};

/// Returns a token. Different requests get different tokens, so they share no prefix.
TokenId MadeUpToken(uint64_t request, uint64_t position) {
  uint64_t bits = request * 0x9e3779b97f4a7c15 + position + 1;  // splitmix64's finish
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return static_cast<TokenId>((bits ^ (bits >> 31)) % INT32_MAX);
}

/// The coordinator's own engine without a model. This class makes up the sampled tokens.
class PagedServer : public Server {
 public:
  explicit PagedServer(const MemorySetup& setup) : setup_(setup), engine_(OptionsOf(setup)) {}

  void Submit(size_t index, const TraceRequest& request) override {
    auto added = std::make_unique<Request>();
    added->id = index + 1;
    added->arrival_seconds = request.arrival_seconds;
    added->limits.max_tokens = request.output_tokens;
    std::vector<TokenId> prompt;
    for (int i = 0; i < request.prompt_tokens; ++i) prompt.push_back(MadeUpToken(index, static_cast<uint64_t>(i)));
    added->sequences = NewSequences(prompt, 1);
    added->sink = std::make_shared<FinishSink>(index, finished_);
    if (const auto refusal = engine_.Submit(std::move(added))) Fail("request {} of the trace: {}", index, *refusal);
  }

  PlannedStep Plan(double now) override {
    const auto plan = engine_.NextPlan(now);
    QUIRE_CHECK(plan, "{} requests and no plan", engine_.requests().size());
    PlannedStep step;
    by_slot_.assign(static_cast<size_t>(setup_.max_running), {});
    for (const Request* request : engine_.scheduler().running()) {
      const Sequence& sequence = request->sequences.front();
      if (sequence.slot) by_slot_[*sequence.slot] = {request->id - 1, &sequence};
      if (!sequence.blocks.empty()) ++step.batch;
      step.usage.live += sequence.num_computed;
      step.usage.internal += static_cast<double>(sequence.blocks.size()) * setup_.block_size - sequence.num_computed;
    }
    draws_.clear();
    for (const SlotId slot : plan->decodes) Compute(slot, 1, step);
    for (const Chunk& chunk : plan->chunks) Compute(chunk.slot, chunk.count, step);
    step.usage.free = static_cast<double>(setup_.capacity_tokens) - step.usage.allocated();
    return step;
  }

  std::vector<size_t> Commit() override {
    finished_.clear();
    engine_.CommitStep(draws_);
    return finished_;
  }

  int64_t preemptions() const override { return engine_.scheduler().num_preemptions(); }

 private:
  class FinishSink : public RequestSink {
   public:
    FinishSink(size_t index, std::vector<size_t>& finished) : index_(index), finished_(finished) {}
    bool OnToken(const TokenEvent&) override { return false; }
    void OnFinish(int, FinishReason) override { finished_.push_back(index_); }
    void OnError(RequestError, const std::string& message) override { throw Error(message); }

   private:
    size_t index_;
    std::vector<size_t>& finished_;  // the server outlives its engine's requests
  };

  /// Returns options without a prefix cache and without host blocks, so that the benchmark measures only paging.
  static EngineOptions OptionsOf(const MemorySetup& setup) {
    EngineOptions options;
    options.scheduler.max_step_tokens = setup.max_step_tokens;
    options.scheduler.max_running = setup.max_running;
    options.blocks.block_size = setup.block_size;
    options.blocks.num_blocks = static_cast<int>(setup.capacity_tokens / setup.block_size) + 1;  // plus the null block
    options.blocks.prefix_caching = false;
    options.max_model_len = setup.max_model_len;
    return options;
  }

  void Compute(SlotId slot, int count, PlannedStep& step) {
    const auto [index, sequence] = by_slot_[slot];
    QUIRE_CHECK(sequence != nullptr, "slot {} is in the plan and not running", slot);
    const int end = sequence->num_computed + count;
    step.computed_tokens += count;
    step.context_tokens += end;
    step.usage.live += count;
    step.usage.internal -= count;
    if (end == sequence->num_tokens()) draws_.push_back({slot, MadeUpToken(index, static_cast<uint64_t>(end)), 0, {}});
  }

  MemorySetup setup_;
  std::vector<size_t> finished_;  // requests that finished in the current commit
  Engine engine_;
  std::vector<std::pair<size_t, const Sequence*>> by_slot_;  // the running requests
  std::vector<SampledToken> draws_;                          // sampled tokens for the next Commit
};

constexpr std::array kKinds{&MemoryUsage::live, &MemoryUsage::reserved, &MemoryUsage::internal, &MemoryUsage::external,
                            &MemoryUsage::free};

void Add(const PlannedStep& step, double step_seconds, MemoryResult& sums) {
  ++sums.steps;
  sums.computed_tokens += step.computed_tokens;
  for (const auto kind : kKinds) sums.shares.*kind += step.usage.*kind;
  sums.mean_batch += step.batch;
  sums.peak_batch = std::max(sums.peak_batch, step.batch);
  sums.busy_seconds += step_seconds;
}

/// Turns sums over steps and requests into means and rates.
void Finish(std::span<const TraceRequest> trace, const MemorySetup& setup, double makespan, MemoryResult& result) {
  const auto steps = static_cast<double>(result.steps), requests = static_cast<double>(trace.size());
  result.kv_waste = result.shares.waste();
  for (const auto kind : kKinds) result.shares.*kind /= steps * static_cast<double>(setup.capacity_tokens);
  result.mean_batch /= steps;
  result.normalised_latency /= requests;
  result.makespan_seconds = makespan;
  result.requests_per_second = requests / makespan;
  for (const TraceRequest& request : trace) result.output_tokens_per_second += request.output_tokens / makespan;
}

}  // namespace

std::string_view NameOf(KvPolicy policy) {
  if (policy == KvPolicy::kPaged) return "paged";
  if (policy == KvPolicy::kOracle) return "oracle";
  return policy == KvPolicy::kPowerOfTwo ? "power of two" : "reserve max";
}

MemoryResult SimulateMemory(KvPolicy policy, const MemorySetup& setup, std::span<const TraceRequest> trace) {
  MemoryResult result;
  if (trace.empty()) return result;
  std::unique_ptr<Server> server;
  if (policy == KvPolicy::kPaged) {
    server = std::make_unique<PagedServer>(setup);
  } else {
    server = std::make_unique<ContiguousServer>(policy, setup);
  }
  const StepCost& cost = setup.cost;
  double now = 0;
  size_t submitted = 0, finished = 0;
  while (finished < trace.size()) {
    if (submitted == finished) now = std::max(now, trace[submitted].arrival_seconds);  // idle until the next arrival
    for (; submitted < trace.size() && trace[submitted].arrival_seconds <= now; ++submitted)
      server->Submit(submitted, trace[submitted]);
    const PlannedStep step = server->Plan(now);
    QUIRE_CHECK(step.computed_tokens > 0, "{} requests and nothing to compute", submitted - finished);
    const double seconds = cost.fixed_seconds + cost.seconds_per_token * static_cast<double>(step.computed_tokens) +
                           cost.seconds_per_context_token * static_cast<double>(step.context_tokens);
    now += seconds;
    Add(step, seconds, result);
    for (const size_t index : server->Commit()) {
      ++finished;
      result.normalised_latency += (now - trace[index].arrival_seconds) / trace[index].output_tokens;
    }
  }
  result.preemptions = server->preemptions();
  Finish(trace, setup, now, result);
  return result;
}

}  // namespace quire
