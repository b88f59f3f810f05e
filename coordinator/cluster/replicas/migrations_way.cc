// Whether a request's blocks come along, and how.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "coordinator/cluster/replicas/migrations.h"

namespace quire {

/// How the request's blocks go; nothing: they stay. Every reason is written down once.
std::optional<MigrationWay> Migrations::WayOf(const Lock&, const Request& request, const BlockTransfer& transfer) {
  const int from = transfer.from, to = transfer.to;
  const BlockShape &source = transfer.source, &target = transfer.target;
  if (at(from).recovering() || at(to).recovering()) return std::nullopt;
  const auto broken = broken_until_.find(std::minmax(from, to));
  if (broken != broken_until_.end() && EngineLoop::Now() < broken->second) return std::nullopt;
  const std::string reason = WhyBlocksStay(source, target);
  if (!reason.empty()) {
    if (told_.insert(fmt::format("{} {} {}", from, to, reason)).second)
      spdlog::info("requests that go from replica {} to {} are computed again there: blocks stay, because {}", from, to,
                   reason);
    return std::nullopt;
  }
  const bool by_host = CanGo(MigrationWay::kHost, source, target);
  const bool by_device = CanGo(MigrationWay::kDevice, source, target) && !by_host_.contains(std::minmax(from, to));
  // Choices share their last blocks, too, on the host, and there alone.
  const bool whole_by_host = request.swapped_out() || request.sequences.size() > 1;
  if (by_device && !(by_host && whole_by_host)) return MigrationWay::kDevice;
  return by_host ? std::optional(MigrationWay::kHost) : std::nullopt;
}

}  // namespace quire
