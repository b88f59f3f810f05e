#include "comm/collective/hierarchical.h"

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"
#include "comm/collective/add_parts.h"
#include "comm/collective/spin_wait.h"

namespace quire {

HostLayout::HostLayout(const std::vector<int>& host_of_rank) : host_of_rank_(host_of_rank) {
  for (Rank rank = 0; rank < size(); ++rank) {
    const int host = host_of(rank);
    QUIRE_CHECK(host >= 0 && host <= num_hosts(), "rank {} is on host {} of {}", rank, host, num_hosts());
    if (host == num_hosts()) ranks_of_host_.emplace_back();
    ranks_of_host_[static_cast<size_t>(host)].push_back(rank);
  }
}

HierarchicalCollective::HierarchicalCollective(HostArena arena, HostLayout layout, Rank rank,
                                               std::unique_ptr<LeaderExchange> exchange, std::shared_ptr<void> owner)
    : arena_(arena),
      layout_(std::move(layout)),
      rank_(rank),
      exchange_(std::move(exchange)),
      owner_(std::move(owner)),
      sizes_(static_cast<size_t>(layout_.size())),
      offsets_(sizes_.size()),
      host_sizes_(static_cast<size_t>(layout_.num_hosts())),
      host_offsets_(host_sizes_.size()),
      spins_(SpinsAmong(static_cast<int>(layout_.ranks_of(layout_.host_of(rank)).size()))) {
  const bool leads = layout_.ranks_of(layout_.host_of(rank)).front() == rank;
  QUIRE_CHECK(leads == (exchange_ != nullptr), "rank {} leads its host: {}", rank, leads);
}

template <class Condition>
void HierarchicalCollective::Await(Condition condition) const {
  SpinUntil(condition, arena_.abort_word(), spins_);
}

void HierarchicalCollective::LayOut() {
  size_t offset = 0;
  for (int host = 0; host < layout_.num_hosts(); ++host) {
    const size_t begin = offset;
    for (const Rank rank : layout_.ranks_of(host)) {
      offsets_[static_cast<size_t>(rank)] = offset;
      offset += sizes_[static_cast<size_t>(rank)];
    }
    host_offsets_[static_cast<size_t>(host)] = static_cast<int>(begin);
    host_sizes_[static_cast<size_t>(host)] = static_cast<int>(offset - begin);
  }
}

const std::byte* HierarchicalCollective::Exchange(std::span<const std::byte> part) {
  std::byte* all = arena_.buffer(operation_);
  // No rank still reads this buffer: a rank that has published operation k + 1 has read all of operation k, and no rank
  // goes beyond operation k + 1 before all ranks of this host have published it.
  if (!part.empty()) std::memcpy(all + offsets_[static_cast<size_t>(rank_)], part.data(), part.size());
  arena_.published(rank_).store(operation_ + 1, std::memory_order_release);
  if (exchange_ != nullptr) {
    for (const Rank other : layout_.ranks_of(layout_.host_of(rank_)))
      Await([&] { return arena_.published(other).load(std::memory_order_acquire) > operation_; });
    exchange_->Begin(all, host_sizes_, host_offsets_);
    Await([&] { return exchange_->Done(); });
    arena_.complete().store(operation_ + 1, std::memory_order_release);
  } else {
    Await([&] { return arena_.complete().load(std::memory_order_acquire) > operation_; });
  }
  ++operation_;
  return all;
}

void HierarchicalCollective::AllReduceAdd(std::span<const float> part, std::span<float> total) {
  constexpr size_t kPiece = HostArena::kPieceBytes / sizeof(float);
  for (size_t begin = 0; begin < part.size(); begin += kPiece) {
    const auto piece = part.subspan(begin, std::min(kPiece, part.size() - begin));
    std::ranges::fill(sizes_, piece.size_bytes());
    LayOut();
    const std::byte* all = Exchange(std::as_bytes(piece));
    AddParts(
        size(), [&](Rank rank) { return reinterpret_cast<const float*>(all + offsets_[static_cast<size_t>(rank)]); },
        total.subspan(begin, piece.size()));
  }
}

void HierarchicalCollective::AllGather(std::span<const std::byte> in, std::span<const size_t> counts,
                                       std::span<std::byte> out) {
  QUIRE_CHECK(counts.size() == sizes_.size() && counts[static_cast<size_t>(rank_)] == in.size(),
              "{} bytes from rank {}", in.size(), rank_);
  const size_t longest = *std::ranges::max_element(counts);
  for (size_t begin = 0; begin < longest; begin += HostArena::kPieceBytes) {
    for (size_t r = 0; r < counts.size(); ++r)
      sizes_[r] = counts[r] <= begin ? 0 : std::min(HostArena::kPieceBytes, counts[r] - begin);
    LayOut();
    const size_t mine = sizes_[static_cast<size_t>(rank_)];
    const std::byte* all = Exchange(mine > 0 ? in.subspan(begin, mine) : std::span<const std::byte>());
    size_t offset = begin;
    for (size_t r = 0; r < counts.size(); offset += counts[r], ++r) {
      if (sizes_[r] > 0) std::memcpy(out.data() + offset, all + offsets_[r], sizes_[r]);
    }
  }
}

}  // namespace quire
