#include "worker/cpu/kept_rows.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/wire/step_plan.h"

namespace quire {

namespace {

/// Returns how many numbers a row of queries has. All layers of an encoder have the same number.
int64_t QueriesWidth(const ModelSpec& spec, const RankShard& shard) {
  return shard.heads.size() * spec.layers.front().head_dim;
}

}  // namespace

KeptRows::KeptRows(const ModelSpec& spec, const RankShard& shard, int64_t tokens)
    : tokens_(tokens), hidden_(spec.hidden_size), queries_width_(QueriesWidth(spec, shard)) {
  for (const LayerSpec& layer : spec.layers) {
    const bool simple = layer.has_attention() && layer.has_kv() && layer.head_dim == spec.layers.front().head_dim;
    QUIRE_CHECK(simple && !spec.parallel_block && !spec.attention_gate && spec.layer_input_size == 0,
                "a pass of a {} cannot be cut", spec.architecture);
  }
  residual_.resize(static_cast<size_t>(tokens * hidden_));
  queries_.resize(static_cast<size_t>(tokens * queries_width_));
}

int64_t KeptRows::MostBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes) {
  if (!spec.bidirectional) return 0;
  const int64_t row = (spec.hidden_size + QueriesWidth(spec, shard)) * static_cast<int64_t>(sizeof(float));
  return MostKeptRows(sizes.max_model_len) * row;
}

void KeptRows::Load(int64_t row, int64_t count, int64_t qkv_width, CpuActivations& to) const {
  std::copy_n(residual_.data() + row * hidden_, count * hidden_, to.residual.data());
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(queries_.data() + (row + i) * queries_width_, queries_width_, to.qkv.data() + i * qkv_width);
}

void KeptRows::Save(int64_t row, int64_t count, int64_t qkv_width, const CpuActivations& from) {
  std::copy_n(from.residual.data(), count * hidden_, residual_.data() + row * hidden_);
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(from.qkv.data() + i * qkv_width, queries_width_, queries_.data() + (row + i) * queries_width_);
}

void KeptRows::SaveNormed(int64_t row, int64_t count, const CpuActivations& from) {
  std::copy_n(from.normed.data(), count * hidden_, residual_.data() + row * hidden_);
}

}  // namespace quire
