#include "coordinator/cluster/launch/kv_space.h"

#include <set>

#include "comm/base/choice.h"
#include "comm/base/json.h"

namespace quire {

std::string KvSpaceOf(const ModelFiles& model, const AssignMessage& assign, const std::vector<RankInfo>& ranks) {
  const ComputeSettings& compute = assign.compute;
  std::set<std::string> instruction_sets;
  for (const RankInfo& rank : ranks) instruction_sets.insert(rank.isa);
  return Json{{"fingerprint", model.Fingerprint()},
              {"backend", NameOf(compute.backend)},
              {"dtype", NameOf(compute.dtype)},
              {"kv_cache_dtype", NameOf(compute.kv_cache_dtype)},
              {"quantization", NameOf(compute.quantization)},
              {"activations", NameOf(compute.activations)},
              {"block_size", assign.block_size},
              {"instruction_sets", instruction_sets},
              {"version", kBuildVersion}}
      .dump();
}

}  // namespace quire
