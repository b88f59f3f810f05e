#pragma once

#include "coordinator/kv_disk/kv_store.h"
#include "coordinator/metrics/series.h"

namespace quire {

/// Metrics of the blocks that are stored in --kv-disk.
class DiskMetrics {
 public:
  DiskMetrics(prometheus::Registry& registry, const std::string& model_name);

  void Update(const KvStoreCounts& counts);

 private:
  Series series_;
  prometheus::Counter &stored_, &found_, &failed_, &removed_, &stored_bytes_, &found_bytes_;
  prometheus::Gauge &files_, &bytes_, &resting_;
};

}  // namespace quire
