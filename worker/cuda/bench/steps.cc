// Whole decode steps of the engine, as a server runs them: one step ahead, sampling and results included.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <random>

#include "comm/error.h"
#include "comm/model/model_files.h"
#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/bench/made_up_model.h"
#include "worker/cuda/cuda_engine.h"

namespace quire::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5, kStepsPerRound = 20, kWarmUp = 4;
constexpr int kMostSteps = kWarmUp + kRounds * kStepsPerRound + 4;
constexpr int kBlock = 16, kChunkTokens = 8192;
constexpr int kLayersOf8B = 32;

/// An engine and sequences that run in it.
class Runner {
 public:
  Runner(const ModelFiles& files, int batch, int context)
      : sizes_{.block_size = kBlock,
               .max_step_tokens = kChunkTokens,
               .max_running = batch,
               .max_model_len = (context + kMostSteps + kBlock) / kBlock * kBlock,
               .threads = 8,
               .shares = {1.0}},
        engine_(MakeCudaEngine(files, sizes_, {}, 0, nullptr)),
        table_(batch, kBlock, sizes_.max_model_len),
        batch_(batch),
        context_(context),
        vocab_(files.config().vocab_size) {
    blocks_each_ = sizes_.max_model_len / kBlock;
    engine_->AllocateBlocks(1 + batch * blocks_each_, 0);
    for (int slot = 0; slot < batch; ++slot) Prefill(static_cast<SlotId>(slot));
  }

  void Begin() {
    StepPlan plan;
    for (int slot = 0; slot < batch_; ++slot) {
      plan.decodes.push_back(static_cast<SlotId>(slot));
      plan.position_sum += static_cast<uint64_t>(table_.at(static_cast<SlotId>(slot)).num_computed);
    }
    Start(plan);
  }
  void Finish() {
    table_.Resolve(draws_.front(), engine_->Finish(table_).tokens);
    draws_.erase(draws_.begin());
  }
  void Run() {
    Begin();
    Finish();
  }

  /// Seconds per step of kStepsPerRound steps, each begun before the one before it has ended.
  double Overlapped() {
    Run();
    const auto begin = Clock::now();
    Begin();
    for (int step = 1; step < kStepsPerRound; ++step) {
      if (!engine_->CanBegin()) Fail("greedy steps should overlap");
      Begin();
      Finish();
    }
    Finish();
    return std::chrono::duration<double>(Clock::now() - begin).count() / kStepsPerRound;
  }
  /// The same, each begun when the one before it has ended.
  double OneByOne() {
    const auto begin = Clock::now();
    for (int step = 0; step < kStepsPerRound; ++step) Run();
    return std::chrono::duration<double>(Clock::now() - begin).count() / kStepsPerRound;
  }

 private:
  void Start(const StepPlan& plan) {
    const auto members = table_.Apply(plan);
    engine_->Begin(plan, members, table_);
    draws_.push_back(table_.Advance(members));
  }

  void Prefill(SlotId slot) {
    AddedSequence added;
    added.slot = slot;
    added.num_prompt_tokens = context_;
    for (int i = 0; i < context_; ++i)
      added.tokens.push_back(static_cast<TokenId>(random_() % static_cast<uint64_t>(vocab_)));
    for (int i = 0; i < blocks_each_; ++i) {  // dealt out in turns, so that a sequence's blocks are not neighbours
      added.blocks.push_back(1 + i * batch_ + static_cast<BlockId>(slot));
    }
    added.sampling.temperature = 0;
    for (int start = 0; start < context_; start += kChunkTokens) {
      StepPlan plan;
      if (start == 0) plan.added.push_back(added);
      plan.chunks.push_back({slot, start, std::min(kChunkTokens, context_ - start)});
      plan.position_sum = static_cast<uint64_t>(start);
      Start(plan);
      Finish();
    }
  }

  EngineSizes sizes_;
  std::unique_ptr<RankEngine> engine_;
  SequenceTable table_;
  std::vector<std::vector<PendingDraw>> draws_;
  int batch_, context_, blocks_each_ = 0;
  int64_t vocab_;
  std::mt19937_64 random_{13};
};

struct StepTimes {
  Timing overlapped, one_by_one;
};

StepTimes MeasureSteps(const ModelFiles& files, int batch, const StepBench& options) {
  Runner runner(files, batch, options.context);
  for (int step = 0; step < kWarmUp; ++step) runner.Run();
  std::vector<double> overlapped, one_by_one;
  for (int round = 0; round < kRounds / 2 + 1; ++round) {
    overlapped.push_back(runner.Overlapped());
    if (round < kRounds / 2) one_by_one.push_back(runner.OneByOne());
  }
  return {Summarise(overlapped), Summarise(one_by_one)};
}

/// Weights and cache that a step must read.
double StepBytes(const MadeUpShape& shape, int64_t layers, int batch, int context) {
  const double weights = 2.0 * static_cast<double>(layers * shape.LayerParameters() + shape.HeadParameters());
  const double kv = 2.0 * 2 * static_cast<double>(layers * shape.kv_heads * shape.head_dim) * batch * context;
  return weights + kv;
}

Case StepCase(const MadeUpShape& shape, int64_t layers, int batch, const StepBench& options, const std::string& what) {
  return {.section = "decode steps",
          .name = fmt::format("{} sequences of {}, {}", batch, options.context, what),
          .bytes = StepBytes(shape, layers, batch, options.context),
          .formula = "2 B * (weights without the embedding) + 2 * 2 B * layers * 8 * 128 * tokens in the cache",
          .facts = {{"batch", batch}, {"context", options.context}, {"layers", layers}}};
}

}  // namespace

void BenchSteps(Bench& bench, const StepBench& options) {
  MadeUpShape shape;
  std::vector<std::vector<StepTimes>> times;
  for (const int64_t layers : options.layers) {
    shape.layers = layers;
    const MadeUpModel model(shape);
    const ModelFiles files = ModelFiles::Open(model.path());
    if (options.profile) {
      Runner runner(files, options.batches.front(), options.context);
      for (int step = 0; step < kWarmUp; ++step) runner.Run();
      BeginProfile();
      runner.Run();
      EndProfile();
      return;
    }
    auto& mine = times.emplace_back();
    for (const int batch : options.batches) {
      mine.push_back(MeasureSteps(files, batch, options));
      const Case c = StepCase(shape, layers, batch, options, fmt::format("{} layers", layers));
      bench.Keep(c, "one step ahead", mine.back().overlapped);
      bench.Keep(c, "one by one", mine.back().one_by_one);
    }
  }
  const auto [few, many] = options.layers;
  for (size_t b = 0; b < options.batches.size(); ++b) {
    const double at_few = times[0][b].overlapped.median, at_many = times[1][b].overlapped.median;
    const double layer = (at_many - at_few) / static_cast<double>(many - few);
    const double whole = at_few + layer * static_cast<double>(kLayersOf8B - few);
    Case c =
        StepCase(shape, kLayersOf8B, options.batches[b], options, fmt::format("{} layers, EXTRAPOLATED", kLayersOf8B));
    c.facts["extrapolated"] = true;
    c.facts["layer_us"] = 1e6 * layer;
    c.facts["rest_us"] = 1e6 * (at_few - layer * static_cast<double>(few));
    bench.Keep(c, fmt::format("from {} and {} layers", few, many), {whole, whole, whole});
  }
}

}  // namespace quire::bench
