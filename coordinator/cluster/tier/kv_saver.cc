#include "coordinator/cluster/tier/kv_saver.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

constexpr size_t kMostFresh = 65536;
constexpr int64_t kBytesAtOnce = 16 << 20;

}  // namespace

void KvSaver::OnFindable(const Sequence& sequence, int index) {
  const auto& contents = sequence.contents;
  const auto at = static_cast<size_t>(index);
  const BlockHash& parent = index == 0 ? contents.root : contents.hashes[at - 1];
  const auto size = static_cast<size_t>(block_size_);
  const auto begin = sequence.tokens.begin() + static_cast<ptrdiff_t>(at * size);
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
  fresh_.push_back({sequence.blocks[at],
                    {contents.hashes[at], parent, {begin, begin + static_cast<ptrdiff_t>(size)}},
                    std::move(chain),
                    at});
}

/// Adds the block, and the blocks before it that are still cached, in order. All are held and released together, so
/// that no block of a prompt is reused before the blocks after it.
void KvSaver::AddChain(const Fresh& fresh, const PrefixCache& cache, std::vector<BlockId>& blocks) {
  for (size_t i = 0; i <= fresh.index; ++i) {
    const BlockId block = fresh.chain->blocks[i];
    const bool is_there = block != kNullBlock && cache.HashOf(block) == fresh.chain->hashes[i];
    if (is_there && std::ranges::find(blocks, block) == blocks.end()) blocks.push_back(block);
  }
}

void KvSaver::Begin(Engine& engine) {
  const PrefixCache& cache = engine.blocks().prefixes().cache();
  const auto most = static_cast<size_t>(std::max<int64_t>(1, kBytesAtOnce / group_.block_bytes()));
  Saving saving{.ticket = GroupBlocks::NewTicket(), .blocks = std::make_shared<std::vector<StoredBlock>>()};
  std::vector<BlockId> ids, held;
  for (; !fresh_.empty() && ids.size() < most; fresh_.pop_front()) {
    Fresh& fresh = fresh_.front();
    if (cache.HashOf(fresh.block) != fresh.name.hash || store_.Holds(fresh.name.hash)) continue;
    const bool is_last = ids.size() + 1 == most || fresh_.size() == 1 || fresh_[1].chain != fresh.chain;
    if (is_last) AddChain(fresh, cache, held);
    ids.push_back(fresh.block);
    saving.blocks->push_back(
        {std::move(fresh.name), std::vector<std::byte>(static_cast<size_t>(group_.block_bytes()))});
  }
  for (const BlockId id : ids) {
    if (std::ranges::find(held, id) == held.end()) held.push_back(id);
  }
  if (ids.empty() || !engine.HoldCached(saving.ticket, held)) return;
  BlockPort::Blocks memory{{}, saving.blocks};
  for (StoredBlock& block : *saving.blocks) memory.memory.emplace_back(block.data);
  group_.Collect(saving.ticket, ids, std::move(memory));
  saving_ = std::move(saving);
}

void KvSaver::Round(Engine& engine) {
  if (saving_ && saving_->ranks_ended == group_.num_ranks() && saving_->arrived) {
    engine.ReleaseTicket(saving_->ticket);
    for (StoredBlock& block : *saving_->blocks) {
      if (!saving_->failed) store_.Write(std::move(block));
    }
    saving_.reset();
  }
  if (!saving_ && !fresh_.empty() && store_.HasRoom()) Begin(engine);
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
  if (saving_) group_.Drop(saving_->ticket);
  saving_.reset();
}

}  // namespace quire
