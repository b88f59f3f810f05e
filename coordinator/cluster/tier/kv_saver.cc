#include "coordinator/cluster/tier/kv_saver.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

constexpr size_t kMostFresh = 65536;
constexpr int64_t kBytesAtOnce = 16 << 20;

}  // namespace

/// Returns the name of block `index` of the sequence, or of the state after the block.
StoredName KvSaver::NameOf(const Sequence& sequence, int index, StoredKind kind) const {
  const auto& contents = sequence.contents;
  const auto at = static_cast<size_t>(index), size = static_cast<size_t>(block_size_);
  const auto begin = sequence.tokens.begin() + static_cast<ptrdiff_t>(at * size);
  return {contents.hashes[at],
          index == 0 ? contents.root : contents.hashes[at - 1],
          {begin, begin + static_cast<ptrdiff_t>(size)},
          kind};
}

void KvSaver::OnStateKept(const Sequence& sequence, int num_tokens, CheckpointId id) {
  if (fresh_states_.size() >= kMostFresh) fresh_states_.pop_front();
  fresh_states_.push_back({id, NameOf(sequence, num_tokens / block_size_ - 1, StoredKind::kState)});
}

void KvSaver::OnFindable(const Sequence& sequence, int index) {
  const auto& contents = sequence.contents;
  const auto at = static_cast<size_t>(index);
  if (fresh_.size() >= kMostFresh) fresh_.pop_front();
  std::shared_ptr<const Chain> chain = fresh_.empty() ? nullptr : fresh_.back().chain;
  if (chain == nullptr || chain->sequence != sequence.id || chain->hashes.size() <= at ||
      chain->hashes[at] != contents.hashes[at]) {
    const size_t length = std::min(contents.hashes.size(), sequence.blocks.size());
    chain = std::make_shared<const Chain>(
        Chain{sequence.id,
              {sequence.blocks.begin(), sequence.blocks.begin() + static_cast<ptrdiff_t>(length)},
              {contents.hashes.begin(), contents.hashes.begin() + static_cast<ptrdiff_t>(length)}});
  }
  fresh_.push_back({sequence.blocks[at], NameOf(sequence, index, StoredKind::kBlock), std::move(chain), at});
}

/// Appends the block and the blocks before it that are still cached, in order. All of them are held and released
/// together, so that no block of a prompt is reused before the blocks after it.
void KvSaver::AddChain(const Fresh& fresh, const PrefixCache& cache, std::vector<BlockId>& blocks) {
  for (size_t i = 0; i <= fresh.index; ++i) {
    const BlockId block = fresh.chain->blocks[i];
    const bool is_there = block != kNullBlock && cache.HashOf(block) == fresh.chain->hashes[i];
    if (is_there && std::ranges::find(blocks, block) == blocks.end()) blocks.push_back(block);
  }
}

/// Holds the cached blocks `held`, and begins to copy those of them that `blocks` lists. `saving` has the names of the
/// copied blocks. Returns false if one of `held` is no longer cached.
bool KvSaver::Hold(Engine& engine, const std::vector<BlockId>& held, const std::vector<BlockId>& blocks,
                   Saving saving) {
  const StoredKind kind = saving.blocks->front().name.kind;
  if (!engine.HoldCached(saving.ticket, held)) return false;
  BlockPort::Blocks memory{{}, saving.blocks};
  for (StoredBlock& block : *saving.blocks) {
    block.data.resize(static_cast<size_t>(group_.bytes_of(kind)));
    memory.memory.emplace_back(block.data);
  }
  group_.Collect({saving.ticket, kind}, blocks, std::move(memory));
  saving_ = std::move(saving);
  state_is_next_ = kind == StoredKind::kBlock;
  return true;
}

void KvSaver::BeginBlocks(Engine& engine) {
  const PrefixCache& cache = engine.blocks().prefixes().cache();
  const auto most = static_cast<size_t>(std::max<int64_t>(1, kBytesAtOnce / group_.bytes_of(StoredKind::kBlock)));
  Saving saving{.ticket = GroupBlocks::NewTicket(), .blocks = std::make_shared<std::vector<StoredBlock>>()};
  std::vector<BlockId> ids, held;
  for (; !fresh_.empty() && ids.size() < most; fresh_.pop_front()) {
    Fresh& fresh = fresh_.front();
    if (cache.HashOf(fresh.block) != fresh.name.hash || store_.Holds(fresh.name.hash)) continue;
    const bool is_last = ids.size() + 1 == most || fresh_.size() == 1 || fresh_[1].chain != fresh.chain;
    if (is_last) AddChain(fresh, cache, held);
    ids.push_back(fresh.block);
    saving.blocks->push_back({std::move(fresh.name), {}});
  }
  for (const BlockId id : ids) {
    if (std::ranges::find(held, id) == held.end()) held.push_back(id);
  }
  if (!ids.empty()) Hold(engine, held, ids, std::move(saving));
}

void KvSaver::BeginState(Engine& engine) {
  const auto& kept = engine.blocks().prefixes().checkpoints().all();
  while (!saving_ && !fresh_states_.empty()) {
    FreshState fresh = std::move(fresh_states_.front());
    fresh_states_.pop_front();
    const auto checkpoint = kept.find(fresh.id);
    if (checkpoint == kept.end() || store_.Holds(fresh.name.hash, StoredKind::kState)) continue;
    Saving saving{.ticket = GroupBlocks::NewTicket(), .blocks = std::make_shared<std::vector<StoredBlock>>()};
    saving.blocks->push_back({std::move(fresh.name), {}});
    Hold(engine, checkpoint->second.blocks, checkpoint->second.blocks, std::move(saving));
  }
}

void KvSaver::Round(Engine& engine) {
  if (saving_ && saving_->ranks_ended == group_.num_ranks() && saving_->arrived) {
    engine.ReleaseTicket(saving_->ticket);
    for (StoredBlock& block : *saving_->blocks) {
      if (!saving_->failed) store_.Write(std::move(block));
    }
    saving_.reset();
  }
  if (saving_ || (fresh_.empty() && fresh_states_.empty()) || !store_.HasRoom()) return;
  if (state_is_next_) BeginState(engine);
  if (!saving_) BeginBlocks(engine);
  if (!saving_) BeginState(engine);
}

bool KvSaver::OnReport(const BlocksReport& report) {
  if (!saving_ || report.ticket != saving_->ticket) return false;
  ++saving_->ranks_ended;
  saving_->failed |= report.state != BlocksReport::kDone;
  return true;
}

bool KvSaver::OnEnd(const BlockTransferEnd& end) {
  if (!saving_ || end.ticket != saving_->ticket) return false;
  saving_->arrived = true;
  saving_->failed |= !end.problem.empty();
  return true;
}

void KvSaver::Forget() {
  fresh_.clear();
  fresh_states_.clear();
  if (saving_) group_.Drop(saving_->ticket);
  saving_.reset();
}

}  // namespace quire
