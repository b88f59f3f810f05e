#include "tests/bench/engine_bench.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>

#include "comm/base/error.h"
#include "coordinator/bench/random_prompt.h"
#include "coordinator/cluster/launch/deployment.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

/// A sink that ignores all tokens.
class PatientSink : public RequestSink {
 public:
  bool OnToken(const TokenEvent&) override { return false; }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string& message) override { throw Error(message); }
};

/// The decoding method of all requests of a trace.
enum class Strategy { kGreedy, kSamples, kBeams };

std::unique_ptr<Request> MakeRequest(RequestId id, const TraceRequest& shape, int64_t vocab_size, Strategy strategy,
                                     int width) {
  const std::vector<TokenId> prompt = RandomPrompt(id, shape.prompt_tokens, vocab_size);
  auto request = std::make_unique<Request>();
  request->id = id;
  request->limits.max_tokens = shape.output_tokens;
  request->sampling.temperature = strategy == Strategy::kSamples ? 1.0f : 0.0f;
  request->sampling.seed = id;
  if (strategy == Strategy::kBeams) {
    request->beams =
        std::make_unique<BeamSearch>(BeamOptions{width, width}, std::vector<TokenId>(), shape.output_tokens);
    request->sampling.num_logprobs = request->beams->num_candidates();
  }
  request->sequences = NewSequences(prompt, strategy == Strategy::kGreedy ? 1 : width);
  request->sink = std::make_shared<PatientSink>();
  return request;
}

/// Statistics of the KV blocks, summed over the steps.
class BlockSamples {
 public:
  /// reserved_tokens: the number of slots that count as held by each sequence; 0: the blocks that it really holds.
  explicit BlockSamples(int reserved_tokens) : reserved_tokens_(reserved_tokens) {}

  void Take(const Engine& engine) {
    const BlockManager& blocks = engine.blocks();
    int batch = 0;
    for (const Request* request : engine.scheduler().running()) {
      for (const Sequence& sequence : request->sequences) {
        entries_ += static_cast<double>(sequence.blocks.size());
        batch += !sequence.blocks.empty();
      }
    }
    for (BlockId block = 1; block <= blocks.num_usable(); ++block) {
      if (blocks.pool().ref_count(block) == 0) continue;
      ++held_;
      filled_slots_ += blocks.fill().tokens(block);
      if (reserved_tokens_ == 0) held_slots_ += blocks.block_size();
    }
    held_slots_ += static_cast<double>(batch) * reserved_tokens_;
    batch_ += batch;
    peak_ = std::max(peak_, batch);
    ++steps_;
  }
  void Put(EngineRun& run) const {
    run.mean_batch = batch_ / steps_;
    run.peak_batch = peak_;
    run.kv_waste = 1 - filled_slots_ / held_slots_;
    run.block_saving = 1 - held_ / entries_;
  }

 private:
  int reserved_tokens_;
  double entries_ = 0, held_ = 0, held_slots_ = 0, filled_slots_ = 0, batch_ = 0, steps_ = 0;
  int peak_ = 0;
};

EngineRun Serve(const Topology& topology, const ModelFiles& model, const std::vector<TraceRequest>& trace,
                Strategy strategy, int width, int reserved_tokens = 0) {
  const std::atomic<bool> never{false};
  Deployment deployment(topology, model, never);
  Engine& engine = deployment.engine();
  int64_t output = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto refusal = engine.Submit(MakeRequest(i + 1, trace[i], model.spec().vocab_size, strategy, width));
    if (refusal) Fail("request {} of the trace: {}", i, *refusal);
    output += trace[i].output_tokens * (strategy == Strategy::kGreedy ? 1 : width);
  }
  BlockSamples samples(reserved_tokens);
  const auto begin = Clock::now();
  auto reported = begin;
  while (const StepPlan* plan = engine.NextPlan(0)) {
    samples.Take(engine);
    const auto [tokens, scores, guesses, times] = deployment.group().RunStep(*plan);
    engine.CommitStep(tokens, times, scores, guesses);
    if (Clock::now() - reported > std::chrono::seconds(10)) {
      reported = Clock::now();
      spdlog::info("{} of {} requests are left", engine.requests().size(), trace.size());
    }
  }
  EngineRun run;
  run.block_size = topology.cache.block_size;
  run.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  run.output_tokens_per_second = static_cast<double>(output) / run.seconds;
  run.preemptions = engine.scheduler().num_preemptions();
  samples.Put(run);
  deployment.Stop("the bench is over");
  return run;
}

Topology Sized(const Topology& topology, int block_size, int max_model_len, int64_t kv_tokens) {
  Topology sized = topology;
  sized.cache.block_size = block_size;
  sized.cache.num_blocks = static_cast<int>(kv_tokens / block_size);
  sized.cache.prefix_caching = false;
  sized.scheduler.max_model_len = max_model_len;
  return sized;
}

}  // namespace

std::vector<EngineRun> RunTraceOnEngine(const Topology& topology, const ModelFiles& model,
                                        const std::vector<TraceRequest>& trace, int max_model_len, int64_t kv_tokens) {
  std::vector<EngineRun> runs;
  for (const bool paged : {true, false}) {
    spdlog::info("{} requests, {} KV tokens, {}", trace.size(), kv_tokens, paged ? "paged" : "one region each");
    Topology sized = Sized(topology, topology.cache.block_size, max_model_len, kv_tokens);
    if (!paged) sized.scheduler.max_running = static_cast<int>(kv_tokens / max_model_len);
    runs.push_back(Serve(sized, model, trace, Strategy::kGreedy, 1, paged ? 0 : max_model_len));
    runs.back().policy = paged ? "paged" : "reserve max";
  }
  return runs;
}

std::vector<EngineRun> RunSharingOnEngine(const Topology& topology, const ModelFiles& model,
                                          const std::vector<TraceRequest>& trace, int max_model_len, int width) {
  std::vector<EngineRun> runs;
  const int64_t kv_tokens = int64_t{4} * width * max_model_len;
  for (const auto& [name, strategy] :
       {std::pair{"parallel samples", Strategy::kSamples}, {"beams", Strategy::kBeams}}) {
    spdlog::info("{} requests of {} {}", trace.size(), width, name);
    runs.push_back(
        Serve(Sized(topology, topology.cache.block_size, max_model_len, kv_tokens), model, trace, strategy, width));
    runs.back().policy = fmt::format("{} {}", width, name);
  }
  return runs;
}

std::vector<RecoveryPoint> MeasureRecovery(const Topology& topology, const ModelFiles& model) {
  constexpr int kLongest = 1024, kRounds = 2;
  std::vector<RecoveryPoint> points;
  double seconds_per_token = 0;
  for (int block_size = 1; block_size <= 256; block_size *= 4) {
    Topology sized = Sized(topology, block_size, kLongest + 16, 2 * kLongest + 512);
    sized.scheduler.preemption = PreemptionMode::kSwap;
    sized.cache.host_swap_bytes = int64_t{1} << 30;
    const std::atomic<bool> never{false};
    Deployment deployment(sized, model, never);
    Engine& engine = deployment.engine();
    for (int tokens = 128; tokens <= kLongest; tokens *= 2) {
      RecoveryPoint point{block_size, tokens, 1e9, 1e9};
      for (int round = 0; round < kRounds; ++round) {
        const auto id = static_cast<RequestId>(block_size * 100'000 + tokens * 10 + round);
        const auto refusal =
            engine.Submit(MakeRequest(id, {0, tokens, 2}, model.spec().vocab_size, Strategy::kGreedy, 1));
        if (refusal) Fail("{}", *refusal);
        double prefill = 0;
        while (engine.requests().at(id)->sequences.front().num_generated() == 0) {
          const auto [drawn, scores, guesses, times] = deployment.group().RunStep(*engine.NextPlan(0));
          prefill += times.compute_micros * 1e-6;
          engine.CommitStep(drawn, times, scores, guesses);
        }
        // The next step also moves as many unused blocks to the host as the prompt fills. Moving them back is assumed
        // to take the same time. The engine itself would not plan such a move now.
        StepPlan plan = *engine.NextPlan(0);
        const int blocks = (tokens + block_size - 1) / block_size, first = engine.blocks().num_usable() - blocks;
        for (int i = 1; i <= blocks; ++i) plan.swap_outs.push_back({first + i, i});
        const auto [drawn, scores, guesses, times] = deployment.group().RunStep(plan);
        engine.CommitStep(drawn, times, scores, guesses);
        point.swap_seconds = std::min(point.swap_seconds, 2 * times.swap_micros * 1e-6);
        point.recompute_seconds = std::min(point.recompute_seconds, prefill);
      }
      seconds_per_token = point.recompute_seconds / tokens;
      points.push_back(point);
    }
    deployment.Stop("the bench is over");
    spdlog::info("blocks of {}: {:.1f} us per token computed", block_size, seconds_per_token * 1e6);
  }
  return points;
}

std::string TableOf(const std::vector<EngineRun>& runs) {
  std::string out = fmt::format("{:<20}{:>7}{:>10}{:>10}{:>8}{:>7}{:>9}{:>9}{:>12}\n", "", "block", "seconds", "tok/s",
                                "batch", "peak", "waste %", "shared %", "preemptions");
  for (const EngineRun& r : runs) {
    out += fmt::format("{:<20}{:>7}{:>10.1f}{:>10.1f}{:>8.1f}{:>7}{:>9.2f}{:>9.1f}{:>12}\n", r.policy, r.block_size,
                       r.seconds, r.output_tokens_per_second, r.mean_batch, r.peak_batch, 100 * r.kv_waste,
                       100 * r.block_saving, r.preemptions);
  }
  return out;
}

Json JsonOf(const std::vector<EngineRun>& runs) {
  Json list = Json::array();
  for (const EngineRun& r : runs) {
    list.push_back({{"policy", r.policy},
                    {"block_size", r.block_size},
                    {"seconds", r.seconds},
                    {"output_tokens_per_second", r.output_tokens_per_second},
                    {"mean_batch", r.mean_batch},
                    {"peak_batch", r.peak_batch},
                    {"kv_waste", r.kv_waste},
                    {"block_saving", r.block_saving},
                    {"preemptions", r.preemptions}});
  }
  return list;
}

}  // namespace quire
