#include "worker/cpu/cpu_engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/host_limits.h"
#include "kernels/block_copy.h"
#include "kernels/kv_cache.h"
#include "worker/cpu/cpu_decoder.h"
#include "worker/cpu/guesser.h"
#include "worker/cpu/sampler.h"
#include "worker/cpu/sliced_passes.h"
#include "worker/cpu/stage_tokens.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/working_memory.h"
#include "worker/engine/remaining_rows.h"
#include "worker/model/state_layout.h"
#include "worker/sampling/pooled_layers.h"
#include "worker/sampling/pooler.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

/// Returns the shards of the ranks of this rank's stage, in the order of the ranks.
std::vector<RankShard> ShardsOfStage(const ModelSpec& spec, const EngineSizes& sizes, const CpuPeers& peers) {
  const GroupCut cut = sizes.cut();
  const std::vector<RankShard> ranks = PlanGroup(spec, cut, sizes.compute.expert_parallel);
  const auto first = ranks.begin() + cut.RankAt(peers.link == nullptr ? 0 : peers.link->stage(), 0);
  return {first, first + cut.stage_size()};
}

KvShape KvShapeOf(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes) {
  return {spec, shard, KvTypeOf(sizes.compute.kv_cache_dtype), sizes.block_size};
}

/// True when the rank has the whole output head.
bool HasWholeHead(const ModelSpec& spec, const RankShard& shard) {
  return shard.is_last() && shard.vocab.size() == spec.vocab_size;
}

/// Returns one rank's sizes, with the model's vocabulary size. Only rank 0 has a draft model or prediction layer.
EngineSizes SizesOfRank(EngineSizes sizes, const ModelFiles& files, bool is_rank_0) {
  if (!is_rank_0) sizes.draft.files = nullptr;
  sizes.draft.vocab_size = files.spec().vocab_size;
  return sizes;
}

bool IsRank0(const CpuPeers& peers) {
  const bool in_last_stage = peers.link == nullptr || peers.link->stage() == peers.link->num_stages() - 1;
  return in_last_stage && peers.stage.rank() == 0;
}

class CpuEngine final : public RankEngine {
 public:
  CpuEngine(const ModelFiles& files, const EngineSizes& sizes, const CpuPeers& peers)
      : sizes_(SizesOfRank(sizes, files, IsRank0(peers))),
        link_(peers.link),
        shards_(ShardsOfStage(files.spec(), sizes, peers)),
        shard_(shards_[static_cast<size_t>(peers.stage.rank())]),
        kv_shape_(KvShapeOf(files.spec(), shard_, sizes)),
        stream_(sizes.threads),
        decoder_(files, shard_, stream_, peers, sizes),
        sampler_(VocabRanges(shards_), peers.stage, stream_),
        tells_(IsRank0(peers)),
        pooler_(files.spec().hidden_size),
        pooled_layers_(files),
        passes_(files.spec(), shard_, sizes_),
        places_(GuesserPlaces(sizes_, kv_shape_.block_bytes())),
        working_(WorkingMemoryOf(files, shard_, sizes_)) {
    const Matrices* head = HasWholeHead(files.spec(), shard_) ? &decoder_.weights().head : nullptr;
    if (sizes_.draft.files != nullptr) guesser_ = MakeGuesser(sizes_, stream_, head);
    files.ReleasePages();
  }

  std::string device() const override { return kernels::CpuIsaName(); }
  int64_t weight_bytes() const override {
    const int64_t own = decoder_.weights().bytes() + decoder_.adapters().bytes();
    return guesser_ == nullptr ? own : own + guesser_->weight_bytes() + places_.spare_blocks * places_.block_bytes;
  }
  int num_adapters() const override { return decoder_.adapters().num_listed(); }
  std::shared_ptr<const AdapterShard> ReadAdapter(const ModelFiles& base, const AdapterFiles& adapter) const override {
    return std::make_shared<CpuAdapter>(base, adapter, shard_);
  }
  void SetAdapter(int number, std::shared_ptr<const AdapterShard> shard) override {
    decoder_.adapters().Set(number, std::static_pointer_cast<const CpuAdapter>(std::move(shard)));
  }
  std::vector<std::string> notes() const override;
  int64_t block_bytes() const override { return places_.block_bytes; }
  int64_t own_block_bytes() const override { return kv_shape_.block_bytes(); }
  int64_t kv_head_bytes(int64_t head_dim) const override { return kv_shape_.head_bytes(head_dim); }
  int64_t state_bytes() const override { return places_.StateBytes(decoder_.state_bytes()); }
  int64_t available_bytes() const override { return ReadMemoryRoom().available; }
  WorkingMemory working() const override { return working_; }
  int64_t AllocateBlocks(int num_blocks, int num_host_blocks) override;

  void SwapOut(const std::vector<BlockCopyPair>& pairs) override {
    StepPlan plan;
    plan.swap_outs = pairs;
    Swap(plan);
  }
  std::span<std::byte> HostBlock(BlockId block) override {
    return {host_blocks_.data() + block * block_bytes(), static_cast<size_t>(own_block_bytes())};
  }
  std::span<std::byte> PoolBlock(BlockId block) override {
    return {pool_.data() + block * block_bytes(), static_cast<size_t>(own_block_bytes())};
  }
  void WillReceive(BlockId block, bool on_device) override {
    if (guesser_ != nullptr) Guesser::Void((on_device ? PoolBlock(block) : HostBlock(block)).data(), places_);
  }
  std::vector<Draft> Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) override {
    return guesser_ == nullptr ? std::vector<Draft>() : guesser_->Guess(orders, table);
  }

  void FreeBlocks(BlockId first, int count, bool on_device) override {
    const auto bytes = static_cast<size_t>(block_bytes());
    HostMemory& memory = on_device ? pool_ : host_blocks_;
    memory.GiveBack(static_cast<size_t>(first) * bytes, static_cast<size_t>(count) * bytes);
  }

  bool CanBegin(bool computes_pending) const override {
    if (in_flight_.empty()) return true;
    return !shard_.is_last() && !computes_pending && in_flight_.back().drafted.empty();
  }
  void Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) override;
  bool Done() override { return shard_.is_last() || link_->HasBytes(link_->num_stages() - 1); }
  ComputedStep Finish(const SequenceTable&) override {
    InFlight step = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (!shard_.is_last()) {
      step.outcome.tokens = stage_tokens_.Take(*link_, step.most_tokens);
      AdvanceStates(step);
    }
    return std::move(step.outcome);
  }

 private:
  void Swap(const StepPlan& plan);
  /// A step that has begun. The last stage has at most one such step. The other stages compute their layers and then
  /// wait for the tokens, so several of their steps may be in flight.
  struct InFlight {
    ComputedStep outcome;
    size_t most_tokens;                // rows after which a token is sampled
    std::vector<BatchMember> drafted;  // the batch, where states wait for the verification of drafts; else empty
  };
  ComputedStep DrawStep(const std::vector<BatchMember>& batch, const SequenceTable& table);
  void AdvanceStates(const InFlight& step);

  EngineSizes sizes_;
  StageLink* const link_;
  std::vector<RankShard> shards_;  // shards of the ranks of this rank's stage
  const RankShard& shard_;
  KvShape kv_shape_;
  kernels::CpuStream stream_;
  CpuDecoder decoder_;
  Sampler sampler_;
  bool tells_;  // true on rank 0 of the group, which alone reports pooled vectors
  Pooler pooler_;
  PooledLayers pooled_layers_;
  SlicedPasses passes_;
  StepInputs inputs_;
  std::unique_ptr<Guesser> guesser_;  // null: this rank makes no drafts
  Guesser::Places places_;
  WorkingMemory working_;
  HostMemory pool_;  // [num_blocks, block bytes], then the guesser's spare blocks
  std::unique_ptr<KvCache> cache_;
  HostMemory host_blocks_;  // [num_host_blocks, block bytes]
  std::deque<InFlight> in_flight_;
  StageTokens stage_tokens_;
};

std::vector<std::string> CpuEngine::notes() const {
  std::vector<std::string> notes = decoder_.weights().Notes();
  if (guesser_ != nullptr)
    notes.push_back(fmt::format("{} takes {:.1f} MiB here, and {:.1f} KiB of each KV block", guesser_->Name(),
                                static_cast<double>(guesser_->weight_bytes()) / (1 << 20),
                                static_cast<double>(block_bytes() - own_block_bytes()) / (1 << 10)));
  return notes;
}

int64_t CpuEngine::AllocateBlocks(int num_blocks, int num_host_blocks) {
  pool_ = HostMemory(static_cast<size_t>((num_blocks + places_.spare_blocks) * block_bytes()));
  cache_ = std::make_unique<KvCache>(kv_shape_, pool_.data(), block_bytes());
  if (guesser_ != nullptr) guesser_->UsePool(pool_.data(), places_, num_blocks);
  if (num_host_blocks == 0) return 0;
  host_blocks_ = HostMemory(static_cast<size_t>(num_host_blocks) * static_cast<size_t>(block_bytes()));
  // Times swapping of up to 16 unused blocks. The first round makes the system allocate the pages.
  StepPlan trial;
  for (int i = 1; i < std::min({num_blocks, num_host_blocks, 17}); ++i) trial.swap_outs.push_back({i, i});
  if (trial.swap_outs.empty()) return 0;
  Swap(trial);
  const auto begin = Clock::now();
  Swap(trial);
  return std::chrono::nanoseconds(Clock::now() - begin).count() / static_cast<int64_t>(trial.swap_outs.size());
}

void CpuEngine::Swap(const StepPlan& plan) {
  std::byte* host = host_blocks_.data();
  const auto copy = [&](const std::byte* from, std::byte* to, const std::vector<BlockCopyPair>& pairs) {
    static_assert(sizeof(BlockCopyPair) == 2 * sizeof(int32_t));
    kernels::BlockCopy(stream_, {from, to, block_bytes(), reinterpret_cast<const int32_t*>(pairs.data()),
                                 static_cast<int64_t>(pairs.size())});
  };
  copy(cache_->pool(), host, plan.swap_outs);
  copy(host, cache_->pool(), plan.swap_ins);
}

void CpuEngine::Begin(const StepPlan& plan, const std::vector<BatchMember>& batch, const SequenceTable& table) {
  const auto begin = Clock::now();
  Swap(plan);
  const auto swap_time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  kernels::BlockCopy(
      stream_, {cache_->pool(), cache_->pool(), block_bytes(), reinterpret_cast<const int32_t*>(plan.copies.data()),
                static_cast<int64_t>(plan.copies.size())});
  if (guesser_ != nullptr) guesser_->Overwrite(batch, table);
  passes_.Release(plan.released);
  const auto slices = std::ranges::find_if(batch, &BatchMember::in_slices);
  InFlight step{};
  for (const BatchMember& member : batch) step.most_tokens += static_cast<size_t>(member.num_rows());
  if (slices != batch.begin()) {
    const std::vector<BatchMember> together(batch.begin(), slices);
    inputs_.Build(table, together, sizes_.block_size);
    decoder_.Forward(inputs_, *cache_);
    if (!inputs_.held_rows.empty()) step.drafted = together;
    if (shard_.is_last()) step.outcome = DrawStep(together, table);
  }
  for (auto member = slices; member != batch.end(); ++member) {
    passes_.Compute(member->slice, table, *cache_, decoder_);
    if (!member->slice.completes()) continue;
    if (shard_.is_last()) std::ranges::move(DrawStep({*member}, table).tokens, std::back_inserter(step.outcome.tokens));
    passes_.Release({member->slot});
  }
  if (shard_.is_last()) {
    if (link_ != nullptr) stage_tokens_.Give(*link_, step.outcome.tokens, step.most_tokens);
    AdvanceStates(step);
    if (guesser_ != nullptr && guesser_->reads_steps()) {
      const std::vector<int32_t> rows = RemainingRows(batch, step.outcome.tokens);
      guesser_->Read({batch, rows, inputs_, decoder_.NormedRows(0, inputs_.num_tokens())}, table);
    }
  }
  step.outcome.swap_micros = static_cast<uint32_t>(swap_time.count());
  in_flight_.push_back(std::move(step));
}

ComputedStep CpuEngine::DrawStep(const std::vector<BatchMember>& batch, const SequenceTable& table) {
  ComputedStep outcome;
  const auto of_draws = [this](int64_t row, int64_t count) { return decoder_.LogitsOfDraws(row, count); };
  const auto of_rows = [this](int64_t row, int64_t count) { return decoder_.LogitsOfRows(row, count); };
  outcome.tokens = decoder_.has_head() ? sampler_.Draw(of_draws, batch, table) : WithoutDraws(batch);
  outcome.scores = sampler_.Score(of_rows, batch, table);
  if (tells_) {
    const auto rows = [this](Pooling pooling, int64_t row, int64_t count) {
      return PoolsEachToken(pooling) ? decoder_.TokenRows(pooling, row, count) : decoder_.NormedRows(row, count);
    };
    pooler_.Pool(rows, batch, table, outcome.tokens);
    for (SampledToken& token : outcome.tokens) {
      if (!token.pooled.empty() && !PoolsEachToken(table.at(token.slot).sampling.pooling))
        pooled_layers_.Apply(token.pooled);
    }
  }
  return outcome;
}

/// Advances the states of sequences with drafts, now that the step's tokens are known.
void CpuEngine::AdvanceStates(const InFlight& step) {
  if (!step.drafted.empty()) decoder_.AdvanceStates(RemainingRows(step.drafted, step.outcome.tokens));
}

}  // namespace

std::unique_ptr<RankEngine> MakeCpuEngine(const ModelFiles& files, const EngineSizes& sizes, Collective& collective) {
  return std::make_unique<CpuEngine>(files, sizes, CpuPeers{collective});
}

std::unique_ptr<RankEngine> MakeCpuStageEngine(const ModelFiles& files, const EngineSizes& sizes, Collective& stage,
                                               StageLink& link) {
  return std::make_unique<CpuEngine>(files, sizes, CpuPeers{stage, &link});
}

RankMemory MemoryOfCpuRank(const ModelFiles& files, const EngineSizes& group, Rank rank) {
  const EngineSizes sizes = SizesOfRank(group, files, rank == 0);
  const RankShard shard =
      PlanGroup(files.spec(), sizes.cut(), sizes.compute.expert_parallel)[static_cast<size_t>(rank)];
  const Guesser::Places places = GuesserPlaces(sizes, KvShapeOf(files.spec(), shard, sizes).block_bytes());
  int64_t weights = ModelWeights::Bytes(files, shard, sizes.compute.quantization) + CpuAdapters::Bytes(files, shard);
  if (sizes.draft.files != nullptr)
    weights += GuesserWeightBytes(sizes, HasWholeHead(files.spec(), shard)) + places.spare_blocks * places.block_bytes;
  return {.weight_bytes = weights,
          .block_bytes = places.block_bytes,
          .state_bytes = places.StateBytes(StateLayout(files.spec(), shard).bytes),
          .working = WorkingMemoryOf(files, shard, sizes)};
}

}  // namespace quire
