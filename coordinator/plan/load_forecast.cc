#include "coordinator/plan/load_forecast.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "coordinator/cluster/launch/engine_settings.h"

namespace quire {

namespace {

/// Records when a request's tokens come, on the virtual clock.
class Stopwatch : public RequestSink {
 public:
  Stopwatch(const double& now, double begin, int prompt_tokens, LoadRow& row)
      : now_(now), begin_(begin), prompt_tokens_(prompt_tokens), row_(row) {}

  bool OnToken(const TokenEvent&) override {
    if (tokens_++ == 0) first_ = now_;
    last_ = now_;
    return false;
  }
  void OnCached(int tokens) override { cached_ = tokens; }
  void OnFinish(int, FinishReason) override {
    ++row_.answered;
    row_.prompt_tokens += prompt_tokens_;
    row_.cached_tokens += cached_;
    row_.first_token.push_back(first_ - begin_);
    if (tokens_ > 1) row_.each_token.push_back((last_ - first_) / (tokens_ - 1));
  }
  void OnError(RequestError, const std::string&) override { ++row_.timed_out; }

 private:
  const double& now_;
  const double begin_;
  const int prompt_tokens_;
  LoadRow& row_;
  int tokens_ = 0, cached_ = 0;
  double first_ = 0, last_ = 0;
};

/// Simulates a replica's workers: the tokens that a step samples, and the step's duration.
class Workers {
 public:
  Workers(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int max_running)
      : costs_(spec, plan, peaks), slots_(static_cast<size_t>(max_running)) {
    int64_t bytes = 0;
    for (const RankInfo& rank : plan.ranks) bytes += rank.bytes_per_block;
    seconds_per_move_ = 2 * static_cast<double>(bytes) / peaks.read_bytes;  // reads a block and writes a block
  }

  double seconds_per_move() const { return seconds_per_move_; }

  /// Returns the seconds of a step, and the tokens that the step samples.
  std::pair<double, std::vector<SampledToken>> Run(const StepPlan& plan) {
    for (const AddedSequence& added : plan.added)
      slots_[added.slot] = {static_cast<int64_t>(added.tokens.size()), added.num_computed};
    members_.clear();
    std::vector<SampledToken> drawn;
    const auto draw = [&](SlotId slot) {
      ++slots_[slot].tokens;
      drawn.push_back({.slot = slot, .token = 0, .logprob = 0, .top = {}});
    };
    const auto compute = [&](SlotId slot, int64_t first, int64_t count) {
      Known& known = slots_[slot];
      known.computed = first + count;
      const bool draws = known.computed == known.tokens;
      members_.push_back({first, count, draws});
      if (draws) draw(slot);
    };
    for (const SlotId slot : plan.decodes) compute(slot, slots_[slot].computed, 1);
    for (const Chunk& chunk : plan.chunks) compute(chunk.slot, chunk.start, chunk.count);
    for (const Slice& slice : plan.slices) {
      members_.push_back({slice.tokens / 2, std::max<int64_t>(1, std::llround(slice.equivalent())), slice.completes()});
      if (!slice.completes()) continue;
      slots_[slice.slot].computed = slice.tokens;
      draw(slice.slot);
    }
    const size_t moves = plan.swap_outs.size() + plan.swap_ins.size() + plan.copies.size();
    return {costs_.Of(members_).expected + static_cast<double>(moves) * seconds_per_move_, std::move(drawn)};
  }

 private:
  struct Known {
    int64_t tokens = 0, computed = 0;  // `tokens` includes tokens that outstanding steps sample
  };

  StepCosts costs_;
  double seconds_per_move_ = 0;
  std::vector<Known> slots_;
  std::vector<StepPart> members_;
};

/// Returns the options without speculative decoding: the simulated tokens are all alike, so drafts taken from the text
/// itself would always be right.
EngineOptions WithoutDrafts(EngineOptions options) {
  options.drafts = {};
  return options;
}

class ForecastRun {
 public:
  ForecastRun(const Topology& topology, const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks)
      : engine_(WithoutDrafts(
            EngineOptionsOf(topology, spec, plan.pools, plan.model_len, plan.assignment.max_step_tokens))),
        workers_(spec, plan, peaks, topology.scheduler.max_running),
        max_waiting_(topology.scheduler.max_waiting),
        replicas_(static_cast<size_t>(topology.parallel.replicas)),
        vocab_size_(spec.vocab_size) {
    engine_.SetSwapSpeed(workers_.seconds_per_move());
  }

  LoadRow Run(const std::vector<TracedRequest>& trace, double rate) {
    row_.rate = rate;
    size_t next = 0;
    int64_t steps = 0, running = 0;
    for (;;) {
      for (; next < trace.size() && trace[next].seconds / rate <= now_; next += replicas_) Arrive(trace[next], next);
      engine_.ExpireOverdue(now_);
      while (const StepPlan* plan = engine_.NextPlan(now_)) {
        running += static_cast<int64_t>(plan->decodes.size() + plan->chunks.size() + plan->slices.size());
        ++steps;
        auto [seconds, drawn] = workers_.Run(*plan);
        free_ = std::max(free_, now_) + seconds;
        outstanding_.push_back({free_, seconds, std::move(drawn)});
      }
      const double arrival = next < trace.size() ? trace[next].seconds / rate : kNever;
      const double done = outstanding_.empty() ? kNever : outstanding_.front().seconds;
      if (arrival == kNever && done == kNever) break;
      now_ = std::min(arrival, done);
      if (done <= arrival) Commit();
    }
    const double arrivals = trace.back().seconds / rate;
    const auto came = static_cast<double>(row_.answered + row_.refused + row_.timed_out);
    row_.requests_a_second = arrivals > 0 ? came / arrivals : came;
    row_.tokens_a_second = now_ > 0 ? static_cast<double>(engine_.stats().generated_tokens) / now_ : 0;
    row_.mean_running = steps > 0 ? static_cast<double>(running) / static_cast<double>(steps) : 0;
    return std::move(row_);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Outstanding {
    double seconds, compute;  // virtual time at the step's end, and the step's duration
    std::vector<SampledToken> drawn;
  };

  void Arrive(const TracedRequest& traced, size_t number) {
    if (engine_.scheduler().num_waiting() >= max_waiting_) {
      ++row_.refused;
      return;
    }
    auto request = std::make_unique<Request>();
    request->id = number + 1;
    request->arrival_seconds = now_;
    request->limits.max_tokens = traced.tokens;
    request->sampling.temperature = 0;
    request->sequences = NewSequences(TokensOf(traced, static_cast<int64_t>(number), vocab_size_), 1);
    request->sink = std::make_shared<Stopwatch>(now_, now_, traced.prompt_tokens, row_);
    if (engine_.Submit(std::move(request))) ++row_.refused;
  }

  void Commit() {
    const Outstanding done = std::move(outstanding_.front());
    outstanding_.pop_front();
    engine_.CommitStep(done.drawn, {.compute_micros = static_cast<uint32_t>(std::min(done.compute * 1e6, 4e9))});
  }

  Engine engine_;
  Workers workers_;
  const int max_waiting_;
  const size_t replicas_;
  const int64_t vocab_size_;
  LoadRow row_;
  double now_ = 0, free_ = 0;  // free_: virtual time until which the workers are busy
  std::deque<Outstanding> outstanding_;
};

}  // namespace

LoadRow Forecast(const Topology& topology, const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks,
                 const std::vector<TracedRequest>& trace, double rate) {
  return ForecastRun(topology, spec, plan, peaks).Run(trace, rate);
}

}  // namespace quire
