#include "worker/model/relative_bias.h"

#include "worker/model/stored_rows.h"

namespace quire {

std::vector<float> RelativeBiasOf(const ModelFiles& files, const RankShard& shard) {
  if (!files.Has(Role::kRelativeBias)) return {};
  const Tensor& table = files.Get(Role::kRelativeBias);
  const std::vector<int64_t> buckets = BucketsOfDistances(files.spec().relative_bias);
  std::vector<float> bias(static_cast<size_t>(shard.heads.size()) * buckets.size());
  std::vector<float> row(static_cast<size_t>(table.cols()));
  for (size_t distance = 0; distance < buckets.size(); ++distance) {
    DecodeRow(table, buckets[distance], 0, table.cols(), row.data());
    for (int64_t head = shard.heads.begin; head < shard.heads.end; ++head)
      bias[static_cast<size_t>(head - shard.heads.begin) * buckets.size() + distance] = row[static_cast<size_t>(head)];
  }
  return bias;
}

}  // namespace quire
