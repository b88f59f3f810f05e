#include "coordinator/cluster/replicas/block_shape.h"

namespace quire {

bool CanGo(MigrationWay way, const BlockShape& from, const BlockShape& to) {
  if (way == MigrationWay::kHost) return from.host_blocks > 0 && to.host_blocks > 0;
  const bool clear_text = from.compute.backend == BackendKind::kCuda && GoesByNetwork(from, to);
  return from.state_blocks == 0 && !from.windowed && !(clear_text && !from.keys.empty());
}

std::string WhyBlocksStay(const BlockShape& from, const BlockShape& to) {
  const ComputeSettings &a = from.compute, &b = to.compute;
  if (a.backend != b.backend || a.dtype != b.dtype || a.kv_cache_dtype != b.kv_cache_dtype)
    return "the groups keep keys and values as other types, or on other devices";
  // Recurrent states consist of parts of convolutions and heads, which are divided among ranks in another way than keys
  // and values. Therefore states move only between groups that divide the model in the same way.
  if ((from.state_blocks > 0 || to.state_blocks > 0) && from.cut != to.cut)
    return "the model's states are not cut anew, and the groups have other shares or stages";
  if (GoesByNetwork(from, to) && (!from.on_network || !to.on_network))
    return "the workers have no address that the other host reaches (transport.bind)";
  if (!CanGo(MigrationWay::kHost, from, to) && !CanGo(MigrationWay::kDevice, from, to))
    return "without swap space (--swap-space) they have no place";
  return "";
}

}  // namespace quire
