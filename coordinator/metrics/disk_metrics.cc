#include "coordinator/metrics/disk_metrics.h"

namespace quire {

DiskMetrics::DiskMetrics(prometheus::Registry& registry, const std::string& model_name)
    : series_(registry, {{"model_name", model_name}}),
      stored_(series_.Counter("quire:kv_disk_stored_blocks_total", "Blocks that were written to --kv-disk")),
      found_(series_.Counter("quire:kv_disk_found_blocks_total", "Blocks that were read from --kv-disk and are right")),
      failed_(series_.Counter("quire:kv_disk_failed_blocks_total",
                              "Blocks that --kv-disk did not take, had lost, or had changed")),
      removed_(series_.Counter("quire:kv_disk_removed_blocks_total",
                               "Blocks that were removed for their age or the size limit of --kv-disk")),
      stored_bytes_(series_.Counter("quire:kv_disk_stored_bytes_total", "Bytes that were written to --kv-disk")),
      found_bytes_(series_.Counter("quire:kv_disk_found_bytes_total", "Bytes that were read from --kv-disk")),
      files_(series_.Gauge("quire:kv_disk_blocks", "Blocks in --kv-disk, of all models")),
      bytes_(series_.Gauge("quire:kv_disk_bytes", "Bytes of the blocks in --kv-disk, of all models")),
      resting_(series_.Gauge("quire:kv_disk_resting", "1 while --kv-disk is left alone because it has just failed")) {}

void DiskMetrics::Update(const KvStoreCounts& counts) {
  RaiseTo(stored_, static_cast<double>(counts.stored));
  RaiseTo(found_, static_cast<double>(counts.found));
  RaiseTo(failed_, static_cast<double>(counts.failed));
  RaiseTo(removed_, static_cast<double>(counts.removed));
  RaiseTo(stored_bytes_, static_cast<double>(counts.stored_bytes));
  RaiseTo(found_bytes_, static_cast<double>(counts.found_bytes));
  files_.Set(static_cast<double>(counts.files));
  bytes_.Set(static_cast<double>(counts.bytes));
  resting_.Set(counts.resting ? 1 : 0);
}

}  // namespace quire
