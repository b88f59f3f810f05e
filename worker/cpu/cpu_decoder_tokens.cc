// CpuDecoder's functions for models that return numbers for every token.
#include <algorithm>

#include "comm/base/error.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

std::span<const float> CpuDecoder::TokenRows(Pooling pooling, int64_t row, int64_t count) {
  const std::span<const float> rows = NormedRows(row, count);
  if (pooling == Pooling::kAll) return rows;
  const bool sparse = pooling == Pooling::kSparse;
  const Matrices& layer = sparse ? weights_.sparse : weights_.colbert;
  if (layer.empty()) Fail("a {} has no layers for the tokens' {}", spec_.architecture, sparse ? "weights" : "vectors");
  const int64_t width = layer[0].rows;
  token_rows_.resize(static_cast<size_t>(count * width));
  Matmul(rows.data(), layer, token_rows_.data(), width, count, kernels::Activations::kInt16);
  AddBias(sparse ? weights_.sparse_bias : weights_.colbert_bias, token_rows_.data(), count, width);
  for (float& weight : token_rows_) {
    if (sparse) weight = std::max(weight, 0.0f);
  }
  return token_rows_;
}

}  // namespace quire
