#include "worker/shard_rows.h"

#include <numeric>

#include "comm/error.h"

namespace quire {

namespace {

kernels::WeightType TypeOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return kernels::WeightType::kF32;
    case TensorType::kF16:
      return kernels::WeightType::kF16;
    case TensorType::kBF16:
      return kernels::WeightType::kBF16;
    case TensorType::kQ8_0:
      return kernels::WeightType::kQ8_0;
    case TensorType::kQ4_0:
      return kernels::WeightType::kQ4_0;
    case TensorType::kQ4_1:
      return kernels::WeightType::kQ4_1;
    case TensorType::kQ5_0:
      return kernels::WeightType::kQ5_0;
    case TensorType::kQ5_1:
      return kernels::WeightType::kQ5_1;
    case TensorType::kQ4_K:
      return kernels::WeightType::kQ4_K;
    case TensorType::kQ5_K:
      return kernels::WeightType::kQ5_K;
    case TensorType::kQ6_K:
      return kernels::WeightType::kQ6_K;
  }
  Fail("unknown tensor type");
}

}  // namespace

kernels::Weight AsWeight(const Tensor& tensor) {
  const auto type = TypeOf(tensor.type);
  return {type, tensor.data.data(), tensor.rows(), tensor.cols(), kernels::RowBytes(type, tensor.cols())};
}

std::vector<float> ReadVector(const Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.cols()));
  kernels::DecodeRow(AsWeight(tensor), 0, 0, tensor.cols(), out.data());
  return out;
}

std::vector<int64_t> RowsOf(Range range) {
  std::vector<int64_t> rows(static_cast<size_t>(range.size()));
  std::iota(rows.begin(), rows.end(), range.begin);
  return rows;
}

std::vector<int64_t> RowsOfHeads(Range heads, int64_t head_dim, bool interleaved) {
  std::vector<int64_t> rows = RowsOf({heads.begin * head_dim, heads.end * head_dim});
  if (!interleaved) return rows;
  for (int64_t& row : rows) {
    const int64_t head = row / head_dim, i = row % head_dim, half = head_dim / 2;
    row = head * head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
  }
  return rows;
}

}  // namespace quire
