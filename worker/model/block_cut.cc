#include "worker/model/block_cut.h"

#include <algorithm>
#include <utility>

#include "worker/model/kv_layout.h"

namespace quire {

namespace {

constexpr size_t kKnownCuts = 16;

/// Returns the rank of the sending group that gives `head` to rank `taker` of the receiving group. This is the rank
/// with the same number if it has the head, otherwise one of the ranks that have the head, chosen by the number
/// `taker`.
Rank GiverOf(int64_t head, const std::vector<RankShard>& givers, Rank taker, int64_t layer) {
  std::vector<Rank> holders;
  for (Rank rank = 0; rank < static_cast<Rank>(givers.size()); ++rank) {
    const RankShard& giver = givers[static_cast<size_t>(rank)];
    if (giver.stage.Contains(layer) && giver.layer(layer).kv_heads.Contains(head)) holders.push_back(rank);
  }
  if (std::ranges::find(holders, taker) != holders.end()) return taker;
  return holders[static_cast<size_t>(taker) % holders.size()];
}

void Append(BlockRuns& runs, int64_t at, int64_t bytes) {
  if (!runs.empty() && runs.back().at + runs.back().bytes == at)
    runs.back().bytes += bytes;
  else
    runs.push_back({at, bytes});
}

}  // namespace

BlockCut CutBetween(const ModelSpec& spec, const std::vector<RankShard>& givers, Rank giver,
                    const std::vector<RankShard>& takers, Rank taker, const std::function<int64_t(int64_t)>& head_bytes,
                    bool latents_once) {
  const RankShard &from = givers[static_cast<size_t>(giver)], &to = takers[static_cast<size_t>(taker)];
  const KvLayout from_layout(spec, from, head_bytes, latents_once), to_layout(spec, to, head_bytes, latents_once);
  BlockCut cut;
  for (int64_t i = 0; i < static_cast<int64_t>(spec.layers.size()); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    if (!layer.has_kv() || !from.stage.Contains(i) || !to.stage.Contains(i)) continue;
    const KvLayout::Layer &source = from_layout.layer(i), &target = to_layout.layer(i);
    const int64_t bytes = head_bytes(layer.head_dim);
    for (const bool values : {false, true}) {
      if (values && source.values_at == source.keys_at) continue;  // latents, stored once
      for (int64_t head = to.layer(i).kv_heads.begin; head < to.layer(i).kv_heads.end; ++head) {
        if (GiverOf(head, givers, taker, i) != giver) continue;
        const int64_t there = head - from.layer(i).kv_heads.begin, here = head - to.layer(i).kv_heads.begin;
        Append(cut.given, (values ? source.values_at : source.keys_at) + there * bytes, bytes);
        Append(cut.taken, (values ? target.values_at : target.keys_at) + here * bytes, bytes);
      }
    }
  }
  return cut;
}

WholeBlockPart PartOfWhole(const ModelSpec& spec, const GroupCut& cut, Rank rank,
                           const std::function<int64_t(int64_t)>& head_bytes, bool latents_once) {
  const std::vector<RankShard> own = PlanGroup(spec, cut), one = PlanShards(spec, {1.0});
  return {KvLayout(spec, one[0], head_bytes, latents_once).block_bytes,
          CutBetween(spec, own, rank, one, 0, head_bytes, latents_once).taken,
          CutBetween(spec, one, 0, own, rank, head_bytes, latents_once).given};
}

const std::vector<BlockRuns>& BlockCuts::Find(Known& known, const GroupCut& cut, bool gives) {
  const auto found = known.find(cut);
  if (found != known.end()) return found->second;
  if (known.size() >= kKnownCuts) known.clear();
  if (cut == own_.cut) {
    std::vector<BlockRuns>& whole = known[cut];
    whole.resize(static_cast<size_t>(cut.num_ranks()));
    whole[static_cast<size_t>(own_.rank)] = {{0, own_.block_bytes}};
    return whole;
  }
  const std::vector<RankShard> own = PlanGroup(*own_.spec, own_.cut), others = PlanGroup(*own_.spec, cut);
  std::vector<BlockRuns>& runs = known[cut];
  for (Rank other = 0; other < static_cast<Rank>(others.size()); ++other) {
    const auto cut_of = [&](const std::vector<RankShard>& from, Rank giver, const std::vector<RankShard>& to,
                            Rank taker) {
      return CutBetween(*own_.spec, from, giver, to, taker, own_.head_bytes, own_.latents_once);
    };
    runs.push_back(gives ? cut_of(own, own_.rank, others, other).given : cut_of(others, other, own, own_.rank).taken);
  }
  return runs;
}

}  // namespace quire
