#include "coordinator/cluster/replicas/replica_rest.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace quire {

namespace {

constexpr auto kLook = std::chrono::milliseconds(2);        // time between two checks for the engine's answer
constexpr auto kStoreLook = std::chrono::milliseconds(20);  // time between two checks of what the store has
constexpr double kStillSeconds = 1;  // a store that has written nothing for this time writes no more

/// Runs `task` on the engine's thread. Returns nullopt when that thread has not run the task by `end_seconds`, or when
/// the replica no longer serves.
std::optional<int64_t> Ask(Replica& replica, std::function<int64_t(Engine&)> task, double end_seconds) {
  struct Answer {
    std::atomic<int64_t> value{0};
    std::atomic<bool> is_there{false};
  };
  const auto answer = std::make_shared<Answer>();
  replica.loop().Post([answer, task = std::move(task)](Engine& engine) {
    answer->value = task(engine);
    answer->is_there = true;
  });
  while (!answer->is_there && EngineLoop::Now() < end_seconds && replica.serving()) std::this_thread::sleep_for(kLook);
  return answer->is_there ? std::optional<int64_t>(answer->value) : std::nullopt;
}

/// Returns the runs of consecutive blocks that no sequence holds and that cache nothing: of each run the first block,
/// then the number of blocks.
std::vector<BlockId> EmptyRuns(const BlockPool& pool) {
  std::vector<BlockId> runs;
  for (BlockId block = 1; block <= pool.num_usable(); ++block) {
    if (pool.ref_count(block) > 0 || pool.keeps(block)) continue;
    if (!runs.empty() && runs[runs.size() - 2] + runs.back() == block)
      ++runs.back();
    else
      runs.insert(runs.end(), {block, 1});
  }
  return runs;
}

/// True when the store has every block that is cached on the device, and every checkpoint of a state.
bool HasAll(const KvStore& store, const Engine& engine) {
  const PrefixSharing& prefixes = engine.blocks().prefixes();
  const auto is_missing = [&](BlockId block, StoredKind kind) {
    const std::optional<BlockHash> hash = prefixes.cache().HashOf(block);
    return hash && !store.Holds(*hash, kind);
  };
  for (BlockId block = 1; block <= engine.blocks().num_usable(); ++block) {
    if (is_missing(block, StoredKind::kBlock)) return false;
  }
  return std::ranges::none_of(prefixes.checkpoints().all(),
                              [&](const auto& kept) { return is_missing(kept.second.end, StoredKind::kState); });
}

}  // namespace

void FinishSaving(Replica& replica, double end_seconds) {
  const std::shared_ptr<KvStore> store = replica.deployment().kv_store();
  if (store == nullptr) return;
  const auto copies = [&replica](Engine&) { return replica.tier() != nullptr && replica.tier()->IsSaving() ? 1 : 0; };
  while (Ask(replica, copies, end_seconds) == 1) std::this_thread::sleep_for(kLook);
  // A block that the store never takes is not waited for: the wait ends once the store has nothing more to write.
  const auto writes = [store](const Engine& engine) { return HasAll(*store, engine) ? 0 : 1; };
  int64_t written = -1;
  for (double moved = EngineLoop::Now(); EngineLoop::Now() < moved + kStillSeconds;) {
    if (Ask(replica, writes, end_seconds) != 1) return;
    const KvStoreCounts counts = store->counts();
    if (std::exchange(written, counts.stored + counts.failed) != counts.stored + counts.failed)
      moved = EngineLoop::Now();
    std::this_thread::sleep_for(kStoreLook);
  }
}

std::optional<int64_t> FreeMemory(Replica& replica, double end_seconds) {
  const std::shared_ptr<KvStore> store = replica.deployment().kv_store();
  const auto free = [&replica, store](Engine& engine) {
    const bool is_stored = store != nullptr && HasAll(*store, engine);
    if (is_stored && engine.blocks().pins().all().empty()) engine.FlushCache();
    FreeBlocksMessage message{EmptyRuns(engine.blocks().pool()), EmptyRuns(engine.blocks().host_pool())};
    int64_t kept = engine.blocks().num_usable(), bytes = 0;
    for (size_t i = 1; i < message.device_runs.size(); i += 2) kept -= message.device_runs[i];
    for (const RankInfo& rank : replica.group().ranks()) bytes += kept * rank.bytes_per_block;
    replica.group().SendToEach(std::move(message));
    return bytes;
  };
  return Ask(replica, free, end_seconds);
}

}  // namespace quire
