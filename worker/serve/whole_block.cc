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

void AddWholeParts(const ModelSpec& spec, const GroupCut& cut, Rank rank, const RankEngine& engine,
                   HelloMessage& hello) {
  const StateCut state(spec, cut, rank);
  if (state.whole_bytes > 0 && !engine.pool_on_host()) return;
  const auto head_bytes = [&engine](int64_t head_dim) { return engine.kv_head_bytes(head_dim); };
  const WholeBlockPart part = PartOfWhole(spec, cut, rank, head_bytes, engine.latents_once());
  hello.whole_block = {part.block_bytes, FlatOf(part.given), FlatOf(part.taken)};
  hello.whole_state = {state.whole_bytes, FlatOf(state.given.whole), FlatOf(state.taken.whole)};
}

}  // namespace quire
