#include "coordinator/kv_disk/kv_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/kv_disk/unix_now.h"

namespace quire {

namespace {

constexpr double kUseSeconds = 3600;  // a use within this time after the last recorded use of a file is not recorded
constexpr double kScanSeconds = 60;   // seconds between two scans for files that other servers wrote or removed
/// The most seconds for writing blocks that still wait when the store is destroyed.
constexpr double kEndSeconds = 5;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

KvStore::KvStore(Options options)
    : options_(std::move(options)),
      folder_(options_.path),
      seal_(folder_.secret(), options_.space),
      files_(seal_.folder(), options_.max_bytes) {
  folder_.MakeSpace(seal_.folder(), options_.about);
  pins_ = std::make_unique<KeptPins>(folder_, seal_);
  Rescan();
  writer_ = std::thread([this] { WriteAll(); });
  reader_ = std::thread([this] { ReadAll(); });
}

KvStore::~KvStore() {
  {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::duration<double>(kEndSeconds), [this] { return waiting_.empty(); });
    stopping_ = true;
  }
  wake_.notify_all();
  writer_.join();
  reader_.join();
}

bool KvStore::Resting() const { return Now() < rest_until_; }

bool KvStore::Holds(const BlockHash& hash, StoredKind kind) const {
  if (!files_.Holds(seal_.FileNameOf(hash, kind))) return false;
  const std::lock_guard lock(mutex_);
  return !Resting();
}

void KvStore::NoteUse(const std::vector<BlockHash>& blocks) {
  if (blocks.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (used_.size() >= kMostUsesWaiting) return;
    used_.push_back(blocks);
  }
  wake_.notify_all();
}

/// Sets the time of the last use of the blocks' files, unless the first file is unknown or its use was recorded within
/// kUseSeconds.
void KvStore::NoteUses(const std::vector<BlockHash>& blocks) {
  const double now = UnixNow();
  const std::optional<double> used = files_.UseOf(seal_.FileNameOf(blocks.front()));
  if (!used || *used + kUseSeconds > now) return;
  for (const BlockHash& block : blocks) {
    for (const StoredKind kind : {StoredKind::kBlock, StoredKind::kState}) {
      const std::string name = seal_.FileNameOf(block, kind);
      if (!files_.Holds(name)) continue;
      files_.SetUse(name, now);
      folder_.NoteUse(seal_.folder(), name);
    }
  }
}

bool KvStore::HasRoom() const {
  const std::lock_guard lock(mutex_);
  return !Resting() && waiting_bytes_ < kMostWaitingBytes;
}

void KvStore::NoteOrigin(const BlockHash& root, const PrefixOrigin& origin) {
  const std::lock_guard lock(mutex_);
  if (origins_.size() >= kMostOrigins && !origins_.contains({root.low, root.high})) origins_.erase(origins_.begin());
  origins_[{root.low, root.high}] = origin;
}

void KvStore::Write(StoredBlock block) {
  {
    const std::lock_guard lock(mutex_);
    const auto origin = origins_.find({block.name.parent.low, block.name.parent.high});
    if (origin != origins_.end()) block.name.origin = origin->second;
    waiting_bytes_ += static_cast<int64_t>(block.data.size());
    waiting_.push_back(std::move(block));
  }
  wake_.notify_all();
}

void KvStore::Read(std::vector<StoredName> names, size_t block_bytes, std::function<void(Found)> done) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({std::move(names), block_bytes, std::move(done)});
  }
  wake_.notify_all();
}

KvStoreCounts KvStore::counts() const {
  const std::lock_guard lock(mutex_);
  KvStoreCounts counts = counts_;
  counts.files = files_.num_files();
  counts.bytes = files_.num_bytes();
  counts.resting = Resting();
  return counts;
}

/// Records a failure and stops using the directory for kRestSeconds. Logs the failure unless the directory was already
/// not used because of an earlier failure.
void KvStore::Failed(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++counts_.failed;
  if (!Resting())
    spdlog::warn("KV on disk: {}; blocks are neither stored nor found for {} s, and prompts are computed", what,
                 kRestSeconds);
  rest_until_ = Now() + kRestSeconds;
}

/// Lists the directory's files again, and removes files that are too old.
void KvStore::Rescan() {
  std::vector<KvFolder::Entry> entries = folder_.List();
  const double oldest = UnixNow() - options_.max_age_seconds;
  int64_t removed = 0;
  std::erase_if(entries, [&](const KvFolder::Entry& entry) {
    if (entry.used_seconds >= oldest) return false;
    folder_.Remove(entry.folder, entry.name);
    ++removed;
    return true;
  });
  {
    const std::lock_guard lock(mutex_);
    counts_.removed += removed;
    next_scan_ = Now() + kScanSeconds;
  }
  files_.Replace(std::move(entries));
  MakeRoom(0);
}

/// Removes the least recently used files, if a further file of `bytes` bytes would exceed a limit.
void KvStore::MakeRoom(int64_t bytes) {
  const auto surplus = files_.Surplus(bytes);
  for (const auto& [name, folder] : surplus) {
    folder_.Remove(folder, name);
    files_.Forget(name);
  }
  const std::lock_guard lock(mutex_);
  counts_.removed += std::ssize(surplus);
}

void KvStore::WriteOne(const StoredBlock& block) {
  const std::string name = seal_.FileNameOf(block.name.hash, block.name.kind);
  const std::vector<std::byte> content = seal_.Seal(block);
  const auto bytes = static_cast<int64_t>(content.size());
  if (bytes > options_.max_bytes) return;
  MakeRoom(bytes);
  folder_.Write(seal_.folder(), name, content);
  files_.Add(name, bytes, UnixNow());
  const std::lock_guard lock(mutex_);
  ++counts_.stored;
  counts_.stored_bytes += bytes;
}

void KvStore::WriteAll() {
  for (;;) {
    StoredBlock block;
    std::vector<std::vector<BlockHash>> used;
    bool scans = false, rests = false;
    {
      std::unique_lock lock(mutex_);
      const auto any = [this] { return stopping_ || !waiting_.empty() || !used_.empty(); };
      wake_.wait_for(lock, std::chrono::duration<double>(kScanSeconds), any);
      if (stopping_) return;
      rests = Resting();
      scans = Now() >= next_scan_ && !rests;
      used.swap(used_);
      if (!waiting_.empty()) block = std::move(waiting_.front());
    }
    const auto bytes = static_cast<int64_t>(block.data.size());
    try {
      if (scans) {
        folder_.MakeSpace(seal_.folder(), options_.about);
        Rescan();
      }
      for (const std::vector<BlockHash>& blocks : used) NoteUses(blocks);
      if (bytes > 0 && !rests) WriteOne(block);
    } catch (const Error& error) {
      Failed(error.what());
    }
    if (bytes == 0) continue;
    {
      const std::lock_guard lock(mutex_);
      waiting_.pop_front();
      waiting_bytes_ -= bytes;
    }
    wake_.notify_all();
  }
}

std::optional<std::vector<std::byte>> KvStore::ReadOne(const StoredName& name, size_t block_bytes) {
  const std::string file_name = seal_.FileNameOf(name.hash, name.kind);
  const size_t file_bytes = BlockSeal::FileBytes(name.tokens.size(), block_bytes);
  const auto content = folder_.Read(seal_.folder(), file_name, file_bytes);
  auto data = content ? seal_.Open(name, *content, block_bytes) : std::nullopt;
  if (!data) {
    // The file is damaged, so no server can use it.
    if (content) folder_.Remove(seal_.folder(), file_name);
    files_.Forget(file_name);
  }
  if (data) files_.SetUse(file_name, UnixNow());
  const std::lock_guard lock(mutex_);
  ++(data ? counts_.found : counts_.failed);
  if (!data) return std::nullopt;
  counts_.found_bytes += static_cast<int64_t>(file_bytes);
  return data;
}

void KvStore::ReadAll() {
  for (;;) {
    Order order;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !orders_.empty(); });
      if (stopping_) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    Found found;
    try {
      for (const StoredName& name : order.names) {
        auto data = ReadOne(name, order.block_bytes);
        if (!data) break;
        found.push_back(std::move(*data));
      }
    } catch (const Error& error) {
      Failed(error.what());
    }
    order.done(std::move(found));
  }
}

}  // namespace quire
