#include "coordinator/kv_disk/kv_disk.h"

#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

KvDisk::KvDisk(const Topology::Cache::Disk& settings) : settings_(settings) { KvFolder check(settings.dir); }

std::shared_ptr<KvStore> KvDisk::StoreFor(const std::string& space, const std::string& about) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<KvStore>& store = stores_[space];
  if (store == nullptr)
    store = std::make_shared<KvStore>(KvStore::Options{.path = settings_.dir,
                                                       .max_bytes = settings_.max_bytes,
                                                       .max_age_seconds = 86400.0 * settings_.days,
                                                       .space = space,
                                                       .about = about});
  return store;
}

KvStoreCounts KvDisk::counts() const {
  const std::lock_guard lock(mutex_);
  KvStoreCounts sum;
  for (const auto& [space, store] : stores_) {
    const KvStoreCounts counts = store->counts();
    sum.stored += counts.stored;
    sum.found += counts.found;
    sum.failed += counts.failed;
    sum.stored_bytes += counts.stored_bytes;
    sum.found_bytes += counts.found_bytes;
    sum.removed += counts.removed;
    sum.files = counts.files;  // not a sum, because every store counts the whole directory
    sum.bytes = counts.bytes;
    sum.resting |= counts.resting;
  }
  return sum;
}

}  // namespace quire
