#include "worker/cuda/cuda_engine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "comm/base/error.h"
#include "worker/cuda/cuda_engine_sizes.h"
#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/cuda/sampling/cuda_sampler.h"
#include "worker/cuda/sampling/prompt_scorer.h"
#include "worker/cuda/sampling/row_fetcher.h"
#include "worker/cuda/step/step_builder.h"
#include "worker/model/state_layout.h"

namespace quire {

namespace {

// A step that takes longer than this has probably lost a rank during an all-reduce.
constexpr auto kStepDeadline = std::chrono::seconds(60);
// Bytes of device memory that the engine leaves free for graphs, and for later allocations of the driver and of NCCL.
constexpr int64_t kReserveBytes = int64_t{512} << 20;
// A step marks three points in the stream: before and after its block moves to or from the host, if it has any, and
// after the copy of its results to the host. The two values of each array are for the two sets of staging memory.
constexpr int kBegunMark[] = {0, 3}, kMovedMark[] = {1, 4}, kDoneMark[] = {2, 5};

class CudaEngine final : public RankEngine {
 public:
  CudaEngine(const ModelFiles& files, const EngineSizes& sizes, const CudaEngineOptions& options, Rank rank,
             NormingCollective* collective)
      : spec_(files.spec()),
        options_(options),
        collective_(collective),
        device_(options.device),
        sizes_(spec_, sizes, options, rank, device_),
        format_{CachedType(options), sizes.block_size, files.kv_scales()},
        decoder_(files,
                 {sizes_.shard, options.dtype, options.quantization, sizes_.max_tokens, sizes_.max_sequences,
                  sizes_.logits_width, sizes.max_model_len, sizes_.builder.attention, sizes_.state_blocks,
                  sizes_.attention, sizes_.attention_workspace, sizes.threads},
                 device_, collective, options.progress),
        sampler_sizes_{sizes_.shards,      rank, sizes_.max_sequences, sizes.max_running, sizes.max_model_len,
                       sizes_.logits_width},
        sampler_(sampler_sizes_, device_, collective),
        scorer_(sampler_sizes_, device_, collective),
        rows_(device_, options.dtype, spec_.hidden_size),
        pooler_(spec_.hidden_size),
        buffers_(MostOfSteps(sizes_.builder, sizes_.max_tokens, sizes_.max_sequences), device_),
        edits_(device_, kEditsAtOnce, "changes of block tables"),
        tables_(device_.Allocate(sizes.max_running * sizes_.max_blocks * int64_t{4}, "block tables")) {
    device_.Synchronize();
  }

  std::string device() const override { return device_.name(); }
  std::vector<std::string> notes() const override { return decoder_.notes(); }
  int64_t weight_bytes() const override { return decoder_.weight_bytes(); }
  int64_t block_bytes() const override { return CudaKvCache::BlockBytes(spec_, sizes_.shard, format_); }
  int64_t kv_head_bytes(int64_t head_dim) const override { return format_.head_bytes(head_dim); }
  bool latents_once() const override { return true; }
  int64_t state_bytes() const override { return sizes_.state_bytes; }
  int64_t available_bytes() const override {
    return std::max<int64_t>(0, device_.free_bytes() / options_.sharers - kReserveBytes);
  }
  int64_t AllocateBlocks(int num_blocks, int num_host_blocks) override;

  void SwapOut(const std::vector<BlockCopyPair>& pairs) override {
    cache_->SwapOut(pairs);
    device_.Synchronize();
  }
  std::span<std::byte> HostBlock(BlockId block) override { return cache_->HostMemoryOf(block); }
  std::span<std::byte> PoolBlock(BlockId block) override { return cache_->MemoryOf(block); }
  bool pool_on_host() const override { return false; }
  DeviceCarrier* carrier() override { return options_.carrier; }

  bool CanBegin(bool) const override { return in_flight_.empty() || (in_flight_.size() == 1 && overlaps_); }
  void Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) override;
  bool Done() override { return device_.Reached(kDoneMark[in_flight_.front().set]); }
  ComputedStep Finish(const SequenceTable& table) override;

 private:
  struct InFlight {
    int set;
    DrawPlan draws;
    std::vector<ScoringMember> scoring;
    std::vector<BatchMember> batch;
    bool keeps_rows, swaps;
  };
  using GraphKey = std::tuple<int64_t, bool, bool, int32_t, int>;  // rows, combines per kind, context, candidates

  void ChooseWays();
  void EditTables(const StepPlan& plan, const SequenceTable& table, int set);
  void Run(const StepShape& shape, int num_candidates);
  void Queue(const StepShape& shape, int num_candidates);

  ModelSpec spec_;
  CudaEngineOptions options_;
  NormingCollective* collective_;
  Device device_;
  CudaEngineSizes sizes_;
  CudaKvFormat format_;
  CudaDecoder decoder_;
  CudaSamplerSizes sampler_sizes_;
  CudaSampler sampler_;
  PromptScorer scorer_;
  RowFetcher rows_;
  Pooler pooler_;
  StepBuffers buffers_;
  UploadBuffer<kernels::TableEntry> edits_;
  DeviceMemory tables_;  // [max_running, max_blocks]
  std::unique_ptr<CudaKvCache> cache_;
  std::map<GraphKey, std::unique_ptr<DeviceGraph>> graphs_;  // null after a shape's first step
  std::deque<InFlight> in_flight_;
  int set_ = 0;            // staging set of the next step
  bool overlaps_ = false;  // the host decides nothing about the last step in flight
};

int64_t CudaEngine::AllocateBlocks(int num_blocks, int num_host_blocks) {
  cache_ = std::make_unique<CudaKvCache>(spec_, sizes_.shard, format_, device_, num_blocks, num_host_blocks);
  ChooseWays();
  std::vector<BlockCopyPair> trial;
  for (int i = 1; i < std::min({num_blocks, num_host_blocks, 17}); ++i) trial.push_back({i, i});
  if (trial.empty()) return 0;
  cache_->SwapOut(trial);
  device_.SetMark(kBegunMark[0]);
  cache_->SwapOut(trial);
  device_.SetMark(kMovedMark[0]);
  device_.Await(kMovedMark[0]);
  return static_cast<int64_t>(1e9 * device_.SecondsBetween(kBegunMark[0], kMovedMark[0])) /
         static_cast<int64_t>(trial.size());
}

/// Chooses the way of computing decode steps, for every number of rows that a graph may have: measures which way is
/// fastest if the options ask for it, otherwise takes the way that the options name. Runs before there are requests, so
/// that no request waits for the measurement. Each rank measures alone, because the measured work has no all-reduces.
void CudaEngine::ChooseWays() {
  for (int64_t rows = 1; options_.graphs && rows <= sizes_.max_sequences; rows = PaddedRows(rows + 1))
    options_.tune ? decoder_.Tune(rows) : decoder_.SetFused(rows, options_.fuse);
}

void CudaEngine::EditTables(const StepPlan& plan, const SequenceTable& table, int set) {
  std::vector<kernels::TableEntry> entries;
  const auto send = [&] {
    if (entries.empty()) return;
    const kernels::TableEntry* sent = edits_.Send(entries, set);
    kernels::ScatterTable(device_.stream(),
                          {sent, static_cast<int64_t>(entries.size()), tables_.as<int32_t>(), sizes_.max_blocks});
    entries.clear();
  };
  const auto add = [&](SlotId slot, size_t index, BlockId block) {
    entries.push_back({static_cast<int32_t>(slot), static_cast<int32_t>(index), block});
    if (static_cast<int64_t>(entries.size()) == edits_.capacity()) send();
  };
  // For added and branched slots, write the whole row of the table, with the plan's edits of that row already
  // made.
  const auto add_row = [&](SlotId slot) {
    const auto& blocks = table.at(slot).blocks;
    for (size_t i = 0; i < blocks.size(); ++i) add(slot, i, blocks[i]);
  };
  std::set<SlotId> whole;
  for (const AddedSequence& added : plan.added) whole.insert(added.slot);
  for (const Branch& branch : plan.branches) whole.insert(branch.slot);
  for (const SlotId slot : whole) add_row(slot);
  for (const TableEdit& edit : plan.tables) {
    if (!whole.count(edit.slot)) add(edit.slot, edit.index, table.at(edit.slot).blocks[edit.index]);
  }
  send();
}

void CudaEngine::Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) {
  if (!plan.drafts.empty()) Fail("the CUDA backend computes no drafts");
  const int set = set_;
  set_ ^= 1;
  edits_.Reset(set);
  cache_->Reset(set);
  const bool swaps = !plan.swap_outs.empty() || !plan.swap_ins.empty();
  if (swaps) device_.SetMark(kBegunMark[set]);
  cache_->SwapOut(plan.swap_outs);
  cache_->SwapIn(plan.swap_ins);
  if (swaps) device_.SetMark(kMovedMark[set]);
  cache_->Copy(plan.copies, set);
  EditTables(plan, table, set);

  const StepLimits limits = LimitsOfStep(batch, table, sizes_.builder);
  buffers_.Begin(limits);
  StepArrays& arrays = buffers_.Host();
  const StepShape shape = BuildStep(batch, table, sizes_.builder, limits, arrays);
  DrawPlan draws = sampler_.Prepare(batch, table, shape.num_draws, arrays);
  buffers_.Upload(draws.num_biases, draws.num_bans);
  Run(shape, draws.num_candidates);
  sampler_.CopyResults(shape.num_draws, set);
  device_.SetMark(kDoneMark[set]);
  if (collective_ != nullptr) collective_->ExpectDoneBy(DeviceCollective::Clock::now() + kStepDeadline);
  sampler_.AskGrammars(table, draws);
  overlaps_ = draws.surely_on_device && !shape.keeps_rows;
  in_flight_.push_back({set, std::move(draws), ScoringMembers(batch), batch, shape.keeps_rows, swaps});
}

void CudaEngine::Queue(const StepShape& shape, int num_candidates) {
  const StepOnDevice step{buffers_.OnDevice(), tables_.as<int32_t>(), sizes_.max_blocks, sampler_.last_tokens()};
  decoder_.Forward(shape, step, *cache_);
  if (shape.num_draws > 0) sampler_.Draw(shape.num_draws, num_candidates, buffers_.OnDevice(), decoder_.logits());
}

void CudaEngine::Run(const StepShape& shape, int num_candidates) {
  if (!options_.graphs || shape.num_chunks > 0) return Queue(shape, num_candidates);
  const GraphKey key{shape.num_rows, shape.combines[0], shape.combines[1], shape.max_context, num_candidates};
  const auto [kept, is_first] = graphs_.try_emplace(key);
  // The first step of a shape runs without a graph: at the first use kernels are loaded, and NCCL connects the ranks
  // for all-reduces of a size. Neither may happen during a capture.
  if (is_first) return Queue(shape, num_candidates);
  if (kept->second == nullptr) kept->second = device_.Capture([&] { Queue(shape, num_candidates); });
  device_.Launch(*kept->second);
}

ComputedStep CudaEngine::Finish(const SequenceTable& table) {
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (collective_ == nullptr) {
    device_.Await(kDoneMark[step.set]);
  } else {
    while (!device_.Reached(kDoneMark[step.set])) {
      collective_->Check();
      std::this_thread::yield();
    }
    if (in_flight_.empty()) collective_->ExpectDoneBy(DeviceCollective::Clock::time_point::max());
  }
  ComputedStep outcome;
  outcome.tokens = sampler_.Collect(step.draws, step.set, table, decoder_.logits());
  outcome.scores = scorer_.Score(step.scoring, table, [this](int64_t row, int64_t count) -> const float* {
    decoder_.LogitsOfRows(row, count);
    return decoder_.logits();
  });
  if (step.keeps_rows && sampler_sizes_.rank == 0) {
    const auto rows = [this](Pooling, int64_t row, int64_t count) {
      return rows_.Fetch(decoder_.NormedRows(row), count);
    };
    pooler_.Pool(rows, step.batch, table, outcome.tokens);
  }
  if (step.swaps)
    outcome.swap_micros =
        static_cast<uint32_t>(1e6 * device_.SecondsBetween(kBegunMark[step.set], kMovedMark[step.set]));
  return outcome;
}

}  // namespace

std::unique_ptr<RankEngine> MakeCudaEngine(const ModelFiles& files, const EngineSizes& sizes,
                                           const CudaEngineOptions& options, Rank rank, NormingCollective* collective) {
  if (!files.adapters().empty()) FailSettings("the CUDA engine has no LoRA adapters: use --backend cpu");
  CheckCudaModel(files.spec(), sizes);
  return std::make_unique<CudaEngine>(files, sizes, options, rank, collective);
}

RankMemory MemoryOfCudaRank(const ModelFiles& files, const EngineSizes& sizes, const CudaEngineOptions& options,
                            Rank rank) {
  const ModelSpec& spec = files.spec();
  CheckCudaModel(spec, sizes);
  const RankShard shard = PlanShards(spec, sizes.shares, sizes.compute.expert_parallel)[static_cast<size_t>(rank)];
  return {.weight_bytes = CudaWeights::Bytes(files, shard, options.dtype, options.quantization),
          .block_bytes = CudaKvCache::BlockBytes(spec, shard, {CachedType(options), sizes.block_size}),
          .state_bytes = StateLayout(spec, shard).bytes,
          .reserved_bytes = kReserveBytes};
}

}  // namespace quire
