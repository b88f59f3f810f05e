// Measures the cost of the coordinator per step. Numbers go to docs/benchmarks; nothing in this file is a test.
//   build/tests/coordinator_bench
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>

#include "comm/wire/messages.h"
#include "coordinator/core/engine/engine.h"
#include "coordinator/journal/journal.h"
#include "tests/support/silent_sink.h"

namespace quire {
namespace {

/// An engine with requests that decode without end.
class DecodingEngine {
 public:
  explicit DecodingEngine(int sequences) : engine_(Options(sequences)) {
    for (RequestId id = 1; id <= static_cast<RequestId>(sequences); ++id) Submit(id);
    while (Step() != static_cast<size_t>(sequences)) continue;
  }

  /// Plans and commits one step. When all requests have finished, submits new ones.
  size_t Step(bool encode = false) {
    const StepPlan* plan = engine_.NextPlan(0);
    if (plan == nullptr) {
      for (int i = 0; i < engine_.options().scheduler.max_running; ++i) Submit(++last_id_);
      plan = engine_.NextPlan(0);
    }
    if (encode) benchmark::DoNotOptimize(EncodePlan(*plan));
    tokens_.clear();
    for (const SlotId slot : plan->decodes) tokens_.push_back({slot, static_cast<TokenId>(slot % 100), 0, {}});
    for (const Chunk& chunk : plan->chunks) {
      if (chunk.start + chunk.count == kPrompt) tokens_.push_back({chunk.slot, 5, 0, {}});
    }
    const size_t decodes = plan->decodes.size();
    engine_.CommitStep(tokens_);
    return decodes;
  }
  Engine& engine() { return engine_; }

 private:
  static constexpr int kPrompt = 200;

  static EngineOptions Options(int sequences) {
    EngineOptions options;
    options.scheduler.max_running = sequences;
    options.scheduler.max_step_tokens = 8192;
    options.blocks.num_blocks = sequences * 150;
    options.max_model_len = 4096;
    return options;
  }

  void Submit(RequestId id) {
    last_id_ = std::max(last_id_, id);
    auto request = std::make_unique<Request>();
    request->id = id;
    request->limits.max_tokens = 2000;
    std::vector<TokenId> prompt(kPrompt, static_cast<TokenId>(id % 1000));
    request->sequences = NewSequences(prompt, 1);
    request->sink = std::make_shared<test::SilentSink>();
    if (engine_.Submit(std::move(request))) std::abort();
  }

  Engine engine_;
  RequestId last_id_ = 0;
  std::vector<SampledToken> tokens_;
};

void ScheduleAndCommit(benchmark::State& state) {
  DecodingEngine engine(static_cast<int>(state.range(0)));
  for (auto _ : state) engine.Step();
}
BENCHMARK(ScheduleAndCommit)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);

void ScheduleEncodeAndCommit(benchmark::State& state) {
  DecodingEngine engine(static_cast<int>(state.range(0)));
  for (auto _ : state) engine.Step(true);
}
BENCHMARK(ScheduleEncodeAndCommit)->Arg(1)->Arg(32)->Arg(256)->Arg(4096)->Unit(benchmark::kMicrosecond);

void ScheduleAndCommitUnderAJournal(benchmark::State& state) {
  DecodingEngine engine(static_cast<int>(state.range(0)));
  char directory[] = "/tmp/quire-bench-XXXXXX";
  if (::mkdtemp(directory) == nullptr) std::abort();
  {
    Journal journal(directory, {}, engine.engine());
    engine.engine().set_observer(&journal);
    for (auto _ : state) engine.Step();
    engine.engine().set_observer(nullptr);
  }
  std::filesystem::remove_all(directory);
}
BENCHMARK(ScheduleAndCommitUnderAJournal)->Arg(256)->Unit(benchmark::kMicrosecond);

/// Looks up a prompt whose blocks are all cached. An item of the benchmark is a block.
void PrefixLookups(benchmark::State& state) {
  BlockManagerOptions options;
  options.num_blocks = 1 << 16;
  BlockManager blocks(options);
  StepPlan plan;
  std::vector<Sequence> prompts;
  for (int p = 0; p < 500; ++p) {
    Sequence& s = prompts.emplace_back();
    for (int i = 0; i < 2001; ++i) s.tokens.push_back((p * 7919 + i * 31) % 50000);
    s.contents.root = blocks.prefixes().Root("");
    s.contents.last = PrefixCache::RootContent(s.contents.root);
    blocks.Grow(s, 2001, plan);
    blocks.Computed(s, 2001);
    blocks.Free(s);
    const bool cold = state.range(0) == 0;
    if (cold) s.contents.hashes.clear();
  }
  int64_t found = 0;
  size_t next = 0;
  for (auto _ : state) {
    Sequence& s = prompts[next++ % prompts.size()];
    if (state.range(0) == 0) s.contents.hashes.clear();
    found += blocks.prefixes().Attach(s, s.num_tokens()) / 16;
    blocks.Free(s);
  }
  state.SetItemsProcessed(found);
}
BENCHMARK(PrefixLookups)->ArgName("hashed_before")->Arg(0)->Arg(1);

/// Looks up the slots of positions in block tables, as every step does for its inputs.
void TableLookups(benchmark::State& state) {
  DecodingEngine engine(256);
  int64_t lookups = 0, sum = 0;
  for (auto _ : state) {
    for (const Request* request : engine.engine().scheduler().running()) {
      for (const Sequence& s : request->sequences) {
        sum += s.blocks[static_cast<size_t>((s.num_computed - 1) / 16)] * 16 + (s.num_computed - 1) % 16;
        ++lookups;
      }
    }
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(lookups);
}
BENCHMARK(TableLookups);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
