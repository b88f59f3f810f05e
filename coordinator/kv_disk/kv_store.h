#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/kept_pins.h"
#include "coordinator/kv_disk/kv_file_list.h"
#include "coordinator/kv_disk/kv_folder.h"
#include "coordinator/kv_disk/kv_store_counts.h"

namespace quire {

/// Stores blocks in a directory, with a writing thread and a reading thread. Only the constructor and the destructor
/// wait for the disk. When the disk fails, blocks are not stored or not found; a failure is logged, and the directory
/// is then not used for kRestSeconds.
class KvStore {
 public:
  static constexpr double kRestSeconds = 30;
  static constexpr size_t kMostUsesWaiting = 256;         // further uses are not recorded
  static constexpr int64_t kMostWaitingBytes = 64 << 20;  // bytes that wait to be written; beyond them HasRoom is false
  static constexpr size_t kMostOrigins = 65536;           // most origins; a further origin replaces another

  struct Options {
    std::string path;
    int64_t max_bytes = 0;       // most bytes of all files of blocks
    double max_age_seconds = 0;  // files that are unused for more seconds are removed
    std::string space;           // name of the space (BlockSeal)
    std::string about;           // describes the space for people
  };
  /// Opens the directory and lists its files. Throws Error when the directory cannot be opened or listed.
  explicit KvStore(Options options);
  /// Waits at most kEndSeconds for blocks that are still to be written.
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  const PrefixCache::Key& chain_key() const { return seal_.chain_key(); }

  /// True when a file of this hash and kind was seen or written, and no failure stops its use now (kRestSeconds).
  bool Holds(const BlockHash& hash, StoredKind kind = StoredKind::kBlock) const;
  /// Records that cached blocks, and the states after them, were used in memory, so that their files stay longer. Does
  /// nothing if the use of the first block was recorded within the last hour.
  void NoteUse(const std::vector<BlockHash>& blocks);
  bool HasRoom() const;
  /// Remembers the origin of the chains from this root, for the files of their first blocks (StoredName::origin).
  void NoteOrigin(const BlockHash& root, const PrefixOrigin& origin);
  void Write(StoredBlock block);

  /// The bytes of the leading blocks of a Read call, up to the first block that is missing or damaged.
  using Found = std::vector<std::vector<std::byte>>;
  /// Reads blocks of `block_bytes` bytes each. Calls `done` on the reading thread.
  void Read(std::vector<StoredName> names, size_t block_bytes, std::function<void(Found)> done);

  KvStoreCounts counts() const;
  KeptPins& pins() { return *pins_; }

 private:
  struct Order {
    std::vector<StoredName> names;
    size_t block_bytes;
    std::function<void(Found)> done;
  };
  void WriteAll();
  void ReadAll();
  void WriteOne(const StoredBlock& block);
  std::optional<std::vector<std::byte>> ReadOne(const StoredName& name, size_t block_bytes);
  void NoteUses(const std::vector<BlockHash>& blocks);
  void Rescan();
  void MakeRoom(int64_t bytes);
  void Failed(const std::string& what);
  bool Resting() const;

  const Options options_;
  KvFolder folder_;
  BlockSeal seal_;
  KvFileList files_;
  std::unique_ptr<KeptPins> pins_;
  mutable std::mutex mutex_;  // guards all members below; no thread holds it while the disk works
  std::condition_variable wake_;
  std::map<std::pair<uint64_t, uint64_t>, PrefixOrigin> origins_;  // origins of chains, by the root's hash
  std::deque<StoredBlock> waiting_;
  int64_t waiting_bytes_ = 0;
  std::vector<std::vector<BlockHash>> used_;  // blocks whose files' use is to be recorded, one list for each prompt
  std::deque<Order> orders_;
  KvStoreCounts counts_;
  double rest_until_ = 0, next_scan_ = 0;  // seconds on the steady clock
  bool stopping_ = false;
  std::thread writer_, reader_;
};

}  // namespace quire
