#include "comm/collective/collective.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "comm/base/error.h"

namespace quire {

void Collective::AllToAll(std::span<const std::byte> in, std::span<const size_t> sizes, std::span<std::byte> out) {
  const auto ranks = static_cast<size_t>(size()), self = static_cast<size_t>(rank());
  QUIRE_CHECK(sizes.size() == ranks * ranks, "{} sizes for {} ranks", sizes.size(), ranks);
  std::vector<size_t> counts;
  for (size_t r = 0; r < ranks; ++r) {
    const auto of_rank = sizes.subspan(r * ranks, ranks);
    counts.push_back(std::accumulate(of_rank.begin(), of_rank.end(), size_t{0}));
  }
  std::vector<std::byte> all(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  AllGather(in, counts, all);
  size_t from = 0, to = 0;
  for (size_t r = 0; r < ranks; from += counts[r], ++r) {
    const auto of_rank = sizes.subspan(r * ranks, ranks);
    const size_t before = std::accumulate(of_rank.begin(), of_rank.begin() + static_cast<ptrdiff_t>(self), size_t{0});
    if (of_rank[self] > 0) std::memcpy(out.data() + to, all.data() + from + before, of_rank[self]);
    to += of_rank[self];
  }
}

}  // namespace quire
