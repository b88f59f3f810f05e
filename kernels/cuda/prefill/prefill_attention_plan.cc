#include <algorithm>
#include <tuple>

#include "kernels/check.h"
#include "kernels/cuda/prefill/prefill_attention.h"

namespace quire::kernels {

int64_t PlanPrefill(const PrefillPlanInputs& in, std::span<PrefillTile> tiles) {
  QUIRE_KERNEL_CHECK(in.query_start.size() == in.context_len.size() + 1);
  QUIRE_KERNEL_CHECK(in.max_group > 0 && in.tile_rows > 0 && in.window >= 0);
  size_t count = 0;
  for (size_t s = 0; s < in.context_len.size(); ++s) {
    const int32_t queries = in.query_start[s + 1] - in.query_start[s], context = in.context_len[s];
    if (context == 0) continue;
    QUIRE_KERNEL_CHECK(queries >= 0 && queries <= context);
    const int64_t rows = int64_t{queries} * in.max_group;
    QUIRE_KERNEL_CHECK(rows + in.tile_rows <= INT32_MAX);
    for (int32_t row = 0; row < rows; row += in.tile_rows) {
      const int32_t first = row / in.max_group;
      const int32_t last = std::min((row + in.tile_rows - 1) / in.max_group, queries - 1);
      const int32_t end = context - queries + last + 1;
      const int32_t begin = in.window > 0 ? std::max(context - queries + first - in.window + 1, 0) : 0;
      QUIRE_KERNEL_CHECK(count < tiles.size());
      tiles[count++] = {static_cast<int32_t>(s), row, end - begin};
    }
  }
  std::sort(tiles.begin(), tiles.begin() + static_cast<ptrdiff_t>(count),
            [](const PrefillTile& a, const PrefillTile& b) {
              return std::tie(b.num_keys, a.sequence, a.first_row) < std::tie(a.num_keys, b.sequence, b.first_row);
            });
  std::fill(tiles.begin() + static_cast<ptrdiff_t>(count), tiles.end(), PrefillTile{-1, 0, 0});
  return static_cast<int64_t>(count);
}

}  // namespace quire::kernels
