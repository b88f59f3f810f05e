// Low-rank products of rows in groups.
#include "kernels/low_rank.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

constexpr int64_t kUpPanels = 8;  // panels of a second product that a thread computes together: 128 columns of y

/// Work for one thread: some panels of one part of one group.
struct LowRankItem {
  const LowRankGroup* group;
  const LowRankPart* part;
  const float* x;  // the rows of the group, which lie side by side
  int64_t x_stride;
  float* inner;  // [rows of the group, rank]
  int64_t panel_begin, panel_end;
};

bool AreNeighbours(const LowRankGroup& group) {
  return group.rows[group.num_rows - 1] - group.rows[0] == group.num_rows - 1;
}

/// Copies the rows of groups whose rows are not neighbours. Returns the beginning of each group's rows, and their
/// stride.
class GroupRows {
 public:
  GroupRows(const CpuStream& stream, const LowRankParams& p, int64_t cols, std::vector<float>& room) {
    int64_t copied = 0;
    for (int64_t g = 0; g < p.num_groups; ++g) copied += AreNeighbours(p.groups[g]) ? 0 : p.groups[g].num_rows;
    if (static_cast<int64_t>(room.size()) < copied * cols) room.resize(static_cast<size_t>(copied * cols));
    float* to = room.data();
    for (int64_t g = 0; g < p.num_groups; ++g) {
      const LowRankGroup& group = p.groups[g];
      if (AreNeighbours(group)) {
        begins_.push_back({p.x + group.rows[0] * p.x_stride, p.x_stride});
        continue;
      }
      stream.pool().ForRange(group.num_rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          std::memcpy(to + i * cols, p.x + group.rows[i] * p.x_stride, static_cast<size_t>(cols) * sizeof(float));
      });
      begins_.push_back({to, cols});
      to += group.num_rows * cols;
    }
  }

  struct Begin {
    const float* x;
    int64_t stride;
  };
  const Begin& of(int64_t group) const { return begins_[static_cast<size_t>(group)]; }

 private:
  std::vector<Begin> begins_;
};

/// Computes the first product of an item's panels: inner = x * down^T.
void MultiplyDown(const LowRankItem& item) {
  const PackedWeight& down = item.part->down;
  ActiveTable().matmul_plain({down, item.panel_begin, item.panel_end, item.inner, down.rows, item.group->num_rows},
                             item.x, item.x_stride);
}

/// Computes the second product of an item's panels, and adds it to rows of y.
void AddUp(const LowRankItem& item, const LowRankParams& p) {
  thread_local std::vector<float> sums;
  const PackedWeight& up = item.part->up;
  const int64_t first = item.panel_begin * kPanelRows, columns = std::min(item.panel_end * kPanelRows, up.rows) - first;
  const int64_t rows = item.group->num_rows;
  if (static_cast<int64_t>(sums.size()) < rows * columns) sums.resize(static_cast<size_t>(rows * columns));
  // The item's panels as a matrix of their own, so that its result has no room for the others.
  const PackedWeight mine = {up.type, up.data + item.panel_begin * PanelBytes(up.type, up.cols), columns, up.cols};
  ActiveTable().matmul_plain({mine, 0, mine.num_panels(), sums.data(), columns, rows}, item.inner, up.cols);
  for (int64_t i = 0; i < rows; ++i) {
    float* y = p.y + item.group->rows[i] * p.y_stride + item.part->column + first;
    const float* sum = sums.data() + i * columns;
    for (int64_t c = 0; c < columns; ++c) y[c] += sum[c];
  }
}

/// Returns the number of columns of x, which is the same for all parts.
int64_t ColumnsOf(const LowRankParams& p) {
  int64_t cols = 0;
  for (int64_t g = 0; g < p.num_groups; ++g) {
    for (int64_t i = 0; i < p.groups[g].num_parts; ++i) {
      const LowRankPart& part = p.groups[g].parts[i];
      QUIRE_KERNEL_CHECK(part.down.type == NumberType::kF32 && part.up.type == NumberType::kF32);
      QUIRE_KERNEL_CHECK(part.down.rows == part.up.cols && part.column + part.up.rows <= p.y_stride);
      QUIRE_KERNEL_CHECK(cols == 0 || cols == part.down.cols);
      cols = part.down.cols;
    }
  }
  QUIRE_KERNEL_CHECK(p.x_stride >= cols);
  return cols;
}

}  // namespace

void AddLowRank(const CpuStream& stream, const LowRankParams& p) {
  thread_local std::vector<float> copied, inner;
  thread_local std::vector<LowRankItem> downs, ups;
  const GroupRows rows(stream, p, ColumnsOf(p), copied);
  int64_t numbers = 0;
  for (int64_t g = 0; g < p.num_groups; ++g) {
    for (int64_t i = 0; i < p.groups[g].num_parts; ++i)
      numbers += p.groups[g].num_rows * p.groups[g].parts[i].down.rows;
  }
  if (static_cast<int64_t>(inner.size()) < numbers) inner.resize(static_cast<size_t>(numbers));
  float* room = inner.data();
  downs.clear();
  ups.clear();
  for (int64_t g = 0; g < p.num_groups; ++g) {
    const LowRankGroup& group = p.groups[g];
    float* inner_of_part = room;
    for (const LowRankPart* part = group.parts; part < group.parts + group.num_parts; ++part) {
      // Neighbours may share their first product, as the weights of a fused matrix do.
      const bool shared = part > group.parts && part->down.data == part[-1].down.data;
      if (!shared) inner_of_part = std::exchange(room, room + group.num_rows * part->down.rows);
      const LowRankItem item = {&group, part, rows.of(g).x, rows.of(g).stride, inner_of_part, 0, 0};
      const auto cut = [&](std::vector<LowRankItem>& items, int64_t panels, int64_t each) {
        for (int64_t panel = 0; panel < panels; panel += each) {
          items.push_back(item);
          items.back().panel_begin = panel;
          items.back().panel_end = std::min(panels, panel + each);
        }
      };
      if (!shared) cut(downs, part->down.num_panels(), 1);
      cut(ups, part->up.num_panels(), kUpPanels);
    }
  }
  // The pool's threads must see this thread's lists, not their own.
  const std::vector<LowRankItem>&first = downs, &second = ups;
  stream.pool().ForEach(static_cast<int64_t>(first.size()),
                        [&](int64_t i, int) { MultiplyDown(first[static_cast<size_t>(i)]); });
  stream.pool().ForEach(static_cast<int64_t>(second.size()),
                        [&](int64_t i, int) { AddUp(second[static_cast<size_t>(i)], p); });
}

}  // namespace quire::kernels
