#include "coordinator/cluster/replicas/replica_choice.h"

#include <algorithm>
#include <vector>

namespace quire {

namespace {

constexpr int64_t kTokensPerDecode = 16;

/// Returns the indices of the views for which both `must` and `prefer` are true. If there are none, returns the indices
/// of the views for which `must` is true.
template <class Must, class Prefer>
std::vector<int> Select(std::span<const ReplicaView> views, Must must, Prefer prefer) {
  std::vector<int> passing, preferred;
  for (int i = 0; i < static_cast<int>(views.size()); ++i) {
    if (!must(i)) continue;
    passing.push_back(i);
    if (prefer(views[static_cast<size_t>(i)])) preferred.push_back(i);
  }
  return preferred.empty() ? passing : preferred;
}

}  // namespace

int64_t LoadOf(const ReplicaView& view, const RequestShape& shape) {
  const int64_t missing = std::max<int64_t>(0, int64_t{shape.blocks} - view.free_blocks);
  return view.queued_tokens + kTokensPerDecode * view.running + missing * shape.block_size;
}

std::optional<int> ChooseReplica(std::span<const ReplicaView> views, const RequestShape& shape) {
  const auto at = [&](int i) -> const ReplicaView& { return views[static_cast<size_t>(i)]; };
  const bool any_steady = std::ranges::any_of(views, [](const auto& v) { return v.serving && !v.recovering; });
  const auto eligible = Select(
      views, [&](int i) { return at(i).serving && (!any_steady || !at(i).recovering); },
      [](const ReplicaView& v) { return v.prefills; });
  if (eligible.empty()) return std::nullopt;
  const auto lighter = [&](int a, int b) {
    const int64_t load_a = LoadOf(at(a), shape), load_b = LoadOf(at(b), shape);
    return load_a != load_b ? load_a < load_b : at(a).free_blocks > at(b).free_blocks;
  };
  const int least = *std::ranges::min_element(eligible, lighter);
  const int kin =
      *std::ranges::max_element(eligible, [&](int a, int b) { return at(a).cached_blocks < at(b).cached_blocks; });
  const int64_t saved = int64_t{at(kin).cached_blocks} * shape.block_size;
  if (at(kin).cached_blocks > at(least).cached_blocks &&
      LoadOf(at(kin), shape) <= LoadOf(at(least), shape) + std::max(saved, kAffinityMargin)) {
    return kin;
  }
  return least;
}

std::optional<int> ChooseDecoder(std::span<const ReplicaView> views, int from, const RequestShape& shape) {
  std::optional<int> best;
  for (int i = 0; i < static_cast<int>(views.size()); ++i) {
    const ReplicaView& view = views[static_cast<size_t>(i)];
    if (i == from || !view.serving || view.recovering || view.prefills) continue;
    if (!best || LoadOf(view, shape) < LoadOf(views[static_cast<size_t>(*best)], shape)) best = i;
  }
  return best;
}

std::optional<int> ChooseRelief(std::span<const ReplicaView> views, int from, bool preempted,
                                const RequestShape& shape) {
  const ReplicaView& own = views[static_cast<size_t>(from)];
  if (own.waiting == 0 && !preempted) return std::nullopt;
  std::optional<int> best;
  for (int i = 0; i < static_cast<int>(views.size()); ++i) {
    const ReplicaView& view = views[static_cast<size_t>(i)];
    if (i == from || !view.serving || view.recovering || view.prefills != own.prefills || view.waiting > 0) continue;
    if (view.free_blocks - shape.blocks < view.usable_blocks / 4) continue;
    if (!best || view.free_blocks > views[static_cast<size_t>(*best)].free_blocks) best = i;
  }
  return best;
}

}  // namespace quire
