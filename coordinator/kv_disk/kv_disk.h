#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comm/topology/topology.h"
#include "coordinator/kv_disk/kv_store.h"

namespace quire {

/// The server's directory of stored blocks, and one KvStore for each space of blocks. Any thread may call its methods.
class KvDisk {
 public:
  /// Opens the directory. Throws Error, which names the directory and the remedy, when this server cannot use it.
  explicit KvDisk(const Topology::Cache::Disk& settings);

  /// Returns the store for blocks of this space (BlockSeal). Worker groups with equal spaces share a store. `about`: a
  /// description of the space for people.
  std::shared_ptr<KvStore> StoreFor(const std::string& space, const std::string& about);

  /// Returns the counts of all stores together; `files` and `bytes` are those of the whole directory.
  KvStoreCounts counts() const;

 private:
  const Topology::Cache::Disk settings_;
  mutable std::mutex mutex_;                                // guards stores_
  std::map<std::string, std::shared_ptr<KvStore>> stores_;  // one store for each space
};

}  // namespace quire
