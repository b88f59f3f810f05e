#include "worker/serve/whole_block.h"

#include "worker/model/block_cut.h"

namespace quire {

namespace {

std::vector<int64_t> FlatOf(const BlockRuns& runs) {
  std::vector<int64_t> flat;
  for (const BlockRun& run : runs) flat.insert(flat.end(), {run.at, run.bytes});
  return flat;
}

}  // namespace

void AddWholeBlockPart(const ModelSpec& spec, const GroupCut& cut, Rank rank, const RankEngine& engine,
                       HelloMessage& hello) {
  if (engine.state_bytes() > 0) return;
  const auto head_bytes = [&engine](int64_t head_dim) { return engine.kv_head_bytes(head_dim); };
  const WholeBlockPart part = PartOfWhole(spec, cut, rank, head_bytes);
  hello.whole_block_bytes = part.block_bytes;
  hello.whole_given = FlatOf(part.given);
  hello.whole_taken = FlatOf(part.taken);
}

}  // namespace quire
