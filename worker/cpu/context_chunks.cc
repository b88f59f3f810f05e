#include "worker/cpu/context_chunks.h"

#include <algorithm>

namespace quire {

void ContextChunks::Cut(const StepInputs& inputs, int64_t chunk) {
  query_start.assign(1, 0);
  context_len.clear();
  context_begin.clear();
  block_tables.clear();
  for (size_t s = 0; s < inputs.context_len.size(); ++s) {
    const int64_t end = inputs.context_len[s], rows = inputs.query_start[s + 1] - inputs.query_start[s];
    const int64_t seen = inputs.context_begin.empty() ? 0 : inputs.context_begin[s];
    const auto table = inputs.block_tables.begin() + static_cast<std::ptrdiff_t>(s) * inputs.table_stride;
    for (int64_t position = end - rows; position < end;) {
      const int64_t begin = position / chunk * chunk, next = std::min(begin + chunk, end);
      query_start.push_back(query_start.back() + static_cast<int32_t>(next - position));
      context_len.push_back(static_cast<int32_t>(next));
      context_begin.push_back(static_cast<int32_t>(std::max(begin, seen)));
      block_tables.insert(block_tables.end(), table, table + inputs.table_stride);
      position = next;
    }
  }
}

}  // namespace quire
