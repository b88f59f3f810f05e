#include "worker/cuda/step/attention_kind.h"

#include <algorithm>

namespace quire {

std::vector<AttentionKind> KindsOf(const ModelSpec& spec) {
  std::vector<AttentionKind> kinds;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.has_attention() && std::ranges::find(kinds, KindOf(layer)) == kinds.end()) kinds.push_back(KindOf(layer));
  }
  return kinds;
}

}  // namespace quire
