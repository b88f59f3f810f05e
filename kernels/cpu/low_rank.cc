// Computes low-rank products for groups of rows.
#include "kernels/low_rank.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

/// A thread computes both products of an item for at most kMostRows rows, so that the rows' sums for a block of panels
/// stay in the first-level cache. It takes at least kLeastRows rows, if there are so many, so that rows share each load
/// of a weight.
constexpr int64_t kMostRows = 24, kLeastRows = 4, kUpPanels = 16;
/// The number of items per thread, so that all threads end at about the same time.
constexpr int64_t kItemsPerThread = 4;

/// Work for one thread: some rows of a group, and the parts that share their first product.
struct LowRankItem {
  const LowRankGroup* group;
  const LowRankPart* parts;
  int64_t num_parts, first_row, num_rows;
};

bool IsPlain(NumberType type) {
  return type == NumberType::kF32 || type == NumberType::kF16 || type == NumberType::kBF16;
}

/// Returns memory for `count` floats, which is valid until the next call with the same vector.
float* RoomFor(std::vector<float>& room, int64_t count) {
  if (static_cast<int64_t>(room.size()) < count) room.resize(static_cast<size_t>(count));
  return room.data();
}

/// Returns the item's rows of x for its first product: in x itself if they are neighbours there, otherwise in `copy`.
/// Sets `stride`, the number of floats from one row to the next.
const float* RowsOfX(const LowRankItem& item, const LowRankParams& p, std::vector<float>& copy, int64_t& stride) {
  const LowRankGroup& group = *item.group;
  const int32_t* rows = (group.x_rows != nullptr ? group.x_rows : group.rows) + item.first_row;
  const int64_t cols = item.parts->down.cols;
  bool neighbours = true;
  for (int64_t i = 1; i < item.num_rows; ++i) neighbours = neighbours && rows[i] == rows[i - 1] + 1;
  stride = neighbours ? p.x_stride : cols;
  if (neighbours) return p.x + rows[0] * p.x_stride;
  float* const to = RoomFor(copy, item.num_rows * cols);
  for (int64_t i = 0; i < item.num_rows; ++i)
    std::memcpy(to + i * cols, p.x + rows[i] * p.x_stride, static_cast<size_t>(cols) * sizeof(float));
  return to;
}

/// Adds inner * up^T to the item's rows of y, some panels at a time.
void AddUp(const LowRankItem& item, const LowRankPart& part, const LowRankParams& p, const float* inner,
           std::vector<float>& room) {
  const PackedWeight& up = part.up;
  float* const sums = RoomFor(room, item.num_rows * kUpPanels * kPanelRows);
  for (int64_t panel = 0; panel < up.num_panels(); panel += kUpPanels) {
    const int64_t first = panel * kPanelRows, columns = std::min(kUpPanels * kPanelRows, up.rows - first);
    // The panels form a matrix of their own, so that its result has no columns for the other panels.
    const PackedWeight mine = {up.type, up.data + panel * PanelBytes(up.type, up.cols), columns, up.cols};
    ActiveTable().matmul_plain({mine, 0, mine.num_panels(), sums, columns, item.num_rows}, inner, up.cols);
    for (int64_t i = 0; i < item.num_rows; ++i) {
      float* y = p.y + item.group->rows[item.first_row + i] * p.y_stride + part.column + first;
      const float* sum = sums + i * columns;
      for (int64_t c = 0; c < columns; ++c) y[c] += sum[c];
    }
  }
}

void Compute(const LowRankItem& item, const LowRankParams& p) {
  thread_local std::vector<float> copy, inner_room, sums;
  const PackedWeight& down = item.parts->down;
  int64_t stride = 0;
  const float* const x = RowsOfX(item, p, copy, stride);
  const int64_t numbers = item.num_rows * down.rows;
  float* const inner = RoomFor(inner_room, numbers);
  ActiveTable().matmul_plain({down, 0, down.num_panels(), inner, down.rows, item.num_rows}, x, stride);
  for (int64_t i = 0; i < numbers; ++i) inner[i] *= item.parts->scale;
  for (int64_t i = 0; i < item.num_parts; ++i) AddUp(item, item.parts[i], p, inner, sums);
}

void Check(const LowRankParams& p) {
  int64_t cols = 0;
  for (int64_t g = 0; g < p.num_groups; ++g) {
    for (int64_t i = 0; i < p.groups[g].num_parts; ++i) {
      const LowRankPart& part = p.groups[g].parts[i];
      QUIRE_KERNEL_CHECK(IsPlain(part.down.type) && IsPlain(part.up.type));
      QUIRE_KERNEL_CHECK(part.down.rows == part.up.cols && part.column + part.up.rows <= p.y_stride);
      QUIRE_KERNEL_CHECK(cols == 0 || cols == part.down.cols);
      cols = part.down.cols;
    }
  }
  QUIRE_KERNEL_CHECK(p.x_stride >= cols);
}

}  // namespace

void AddLowRank(const CpuStream& stream, const LowRankParams& p) {
  thread_local std::vector<LowRankItem> items;
  Check(p);
  items.clear();
  int64_t rows = 0;  // number of rows of all items
  for (int64_t g = 0; g < p.num_groups; ++g) {
    const LowRankGroup& group = p.groups[g];
    for (int64_t i = 0; i < group.num_parts; ++i) {
      // Neighbouring parts may share their first product, as the weights of a fused matrix do.
      if (i > 0 && group.parts[i].down.data == group.parts[i - 1].down.data) {
        ++items.back().num_parts;
        continue;
      }
      items.push_back({&group, group.parts + i, 1, 0, group.num_rows});
      rows += group.num_rows;
    }
  }
  const int64_t wanted = kItemsPerThread * stream.pool().num_threads();
  const int64_t each = std::clamp((rows + wanted - 1) / wanted, kLeastRows, kMostRows);
  for (size_t i = 0, whole = items.size(); i < whole; ++i) {
    const LowRankItem item = items[i];
    const int64_t count = (item.num_rows + each - 1) / each, size = (item.num_rows + count - 1) / count;
    items[i].num_rows = std::min(size, item.num_rows);
    for (int64_t first = size; first < item.num_rows; first += size) {
      items.push_back(item);
      items.back().first_row = first;
      items.back().num_rows = std::min(size, item.num_rows - first);
    }
  }
  // This reference makes the pool's threads see this thread's list; `items` is thread-local.
  const std::vector<LowRankItem>& all = items;
  stream.pool().ForEach(static_cast<int64_t>(all.size()),
                        [&](int64_t i, int) { Compute(all[static_cast<size_t>(i)], p); });
}

}  // namespace quire::kernels
