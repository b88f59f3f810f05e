#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "worker/cpu/cpu_activations.h"
#include "worker/engine/engine_sizes.h"
#include "worker/model/shard.h"

namespace quire {

/// The activations of a text's rows between the slices of its pass (Slice).
class KeptRows {
 public:
  /// Reserves room for a text of `tokens` tokens.
  KeptRows(const ModelSpec& spec, const RankShard& shard, int64_t tokens);

  /// Returns the bytes of the most rows that a rank stores between slices (MostKeptRows); 0 unless the model is an
  /// encoder.
  static int64_t MostBytes(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes);

  int64_t tokens() const { return tokens_; }
  /// Load copies the residual and the queries of rows [row, row + count) to the first rows of the step's activations.
  /// Save copies them back. In the activations, rows of queries are qkv_width numbers apart.
  void Load(int64_t row, int64_t count, int64_t qkv_width, CpuActivations& to) const;
  void Save(int64_t row, int64_t count, int64_t qkv_width, const CpuActivations& from);
  /// Replaces the residual of the rows by the final norm's result. When all rows are replaced, the pass is complete.
  void SaveNormed(int64_t row, int64_t count, const CpuActivations& from);
  /// Returns the final norm's results: [tokens, hidden].
  const float* normed() const { return residual_.data(); }

 private:
  int64_t tokens_, hidden_, queries_width_;
  std::vector<float> residual_;  // [tokens, hidden]
  std::vector<float> queries_;   // [tokens, local heads * head_dim], rotated
};

}  // namespace quire
