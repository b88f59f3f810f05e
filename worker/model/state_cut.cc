#include "worker/model/state_cut.h"

#include <algorithm>

#include "kernels/causal_conv.h"
#include "kernels/state_view.h"
#include "worker/model/state_layout.h"

namespace quire {

namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

/// Neighbouring channels of a rank's convolution: their first index in the rank's rows and in the rows of the whole
/// state.
struct Channels {
  int64_t here = 0, whole = 0, count = 0;
  bool gives = true;  // false: another rank gives these channels
};

void Append(StateCut::Runs& runs, int64_t here, int64_t whole, int64_t bytes) {
  if (bytes == 0) return;
  const bool continues = !runs.here.empty() && runs.here.back().at + runs.here.back().bytes == here &&
                         runs.whole.back().at + runs.whole.back().bytes == whole;
  if (!continues) {
    runs.here.push_back({here, 0});
    runs.whole.push_back({whole, 0});
  }
  runs.here.back().bytes += bytes;
  runs.whole.back().bytes += bytes;
}

/// True when an earlier rank of the rank's stage also has the key head.
bool IsGivenBefore(int64_t head, const std::vector<RankShard>& shards, Rank rank) {
  const RankShard& own = shards[static_cast<size_t>(rank)];
  const auto end = shards.begin() + rank;
  return std::any_of(shards.begin(), end, [&](const RankShard& other) {
    return other.stage == own.stage && other.key_heads.Contains(head);
  });
}

std::vector<Channels> ChannelsOf(const ModelSpec& spec, const std::vector<RankShard>& shards, Rank rank) {
  const RankShard& own = shards[static_cast<size_t>(rank)];
  const Recurrence& r = spec.recurrence;
  if (r.channels > 0) return {{0, own.channels.begin, own.channels.size()}};
  std::vector<Channels> channels;
  for (const int64_t part : {0, 1}) {  // queries, then keys
    for (int64_t head = own.key_heads.begin; head < own.key_heads.end; ++head) {
      const int64_t here = part * own.key_heads.size() + head - own.key_heads.begin;
      const int64_t whole = part * r.key_heads + head;
      channels.push_back({here * r.key_dim, whole * r.key_dim, r.key_dim, !IsGivenBefore(head, shards, rank)});
    }
  }
  channels.push_back({2 * own.key_heads.size() * r.key_dim,
                      2 * r.key_heads * r.key_dim + own.value_heads.begin * r.value_dim,
                      own.value_heads.size() * r.value_dim});
  return channels;
}

}  // namespace

StateCut::StateCut(const ModelSpec& spec, const GroupCut& cut, Rank rank) {
  const std::vector<RankShard> shards = PlanGroup(spec, cut), one = PlanShards(spec, {1.0});
  const RankShard& own = shards[static_cast<size_t>(rank)];
  const StateLayout layout(spec, own);
  const Recurrence& r = spec.recurrence;
  const int64_t row = ConvolvedChannels(spec, own), whole_row = ConvolvedChannels(spec, one.front());
  const std::vector<Channels> channels = ChannelsOf(spec, shards, rank);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    if (!layer.has_state()) continue;
    const bool mine = own.stage.Contains(i);
    const StateLayout::Layer& place = layout.layer(i);
    for (int64_t tap = 0; mine && tap < r.taps - 1; ++tap) {
      for (const Channels& c : channels) {
        const int64_t here = place.convolution_at + (tap * row + c.here) * kFloatBytes;
        const int64_t whole = whole_bytes + (tap * whole_row + c.whole) * kFloatBytes;
        Append(taken, here, whole, c.count * kFloatBytes);
        if (c.gives) Append(given, here, whole, c.count * kFloatBytes);
      }
    }
    whole_bytes += kernels::CausalConvStateBytes(whole_row, r.taps);
    if (!layer.has_state_heads()) continue;
    const int64_t bytes = kernels::HeadStateBytes(1, r.key_dim, r.value_dim);
    for (Runs* runs : {&given, &taken}) {
      if (mine)
        Append(*runs, place.heads_at, whole_bytes + own.value_heads.begin * bytes, own.value_heads.size() * bytes);
    }
    whole_bytes += r.value_heads * bytes;
  }
}

}  // namespace quire
