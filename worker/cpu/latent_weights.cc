// Packs the matrices of latent attention that are separate for each head.
#include <algorithm>
#include <numeric>

#include "worker/cpu/weights.h"
#include "worker/model/stored_rows.h"

namespace quire {

namespace {

/// Returns the slice with one head's rows, from a slice with the rows of all heads. Each head has `count` rows.
WeightSlice PartOfRows(const WeightSlice& all, int64_t head, int64_t count) {
  const auto begin = all.rows.begin() + head * count;
  return {{begin, begin + count}, all.cols};
}

/// Returns the slice that covers the whole matrix.
WeightSlice WholeOf(const Tensor& tensor) {
  WeightSlice slice{std::vector<int64_t>(static_cast<size_t>(tensor.rows())), {0, tensor.cols()}};
  std::iota(slice.rows.begin(), slice.rows.end(), int64_t{0});
  return slice;
}

/// Transposes the given rows into `room`, which must outlive the result. Plain matrices have the same type in the
/// result. Quantised matrices become fp32, because their blocks lie along rows. With `counts` the result has a shape
/// but no numbers.
Tensor RowsTurned(const Tensor& tensor, const WeightSlice& rows, bool counts, std::vector<std::byte>& room) {
  const bool plain = LayoutOf(tensor.type).block_numbers == 1 && tensor.scaled == nullptr;
  const NumberType type = plain ? tensor.type : NumberType::kF32;
  const int64_t count = std::ssize(rows.rows), cols = rows.cols.size();
  if (counts) return {type, {cols, count}, {}};
  const int64_t row_bytes = kernels::RowBytes(type, cols);
  std::vector<std::byte> gathered(static_cast<size_t>(count * row_bytes));
  std::vector<float> numbers(static_cast<size_t>(cols));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows.rows[static_cast<size_t>(i)];
    const std::byte* from = tensor.data.data() + row * row_bytes;
    if (!plain) {
      DecodeRow(tensor, row, 0, cols, numbers.data());
      from = reinterpret_cast<const std::byte*>(numbers.data());
    }
    std::copy_n(from, row_bytes, gathered.data() + i * row_bytes);
  }
  return Transposed({type, {count, cols}, gathered}, room);
}

}  // namespace

void ModelWeights::PackByHead(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned,
                              int64_t layer, Matrices& to) {
  const auto& [role, cut, rounding] = planned.parts.front();
  const Tensor& stored = files.Get(role, layer);
  const WeightSlice slice = SliceOf(files, shard, role, layer);
  const int64_t count = cut.size() / planned.heads;
  std::vector<std::byte> room;
  for (int64_t h = 0; h < planned.heads; ++h) {
    const WeightSlice rows = PartOfRows(slice, h, count);
    if (planned.turned) {
      const Tensor turned = RowsTurned(stored, rows, loading_ == Loading::kCount, room);
      to.push_back(Pack(turned, WholeOf(turned), rounding));
    } else {
      to.push_back(Pack(stored, rows, rounding));
    }
  }
}

}  // namespace quire
