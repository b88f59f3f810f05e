#include "coordinator/plan/stage_text.h"

#include <fmt/format.h>

#include <numeric>

namespace quire {

StepWaits WaitsOf(const ModelSpec& spec, int tensor, int stages) {
  StepWaits waits;
  if (stages > 1) waits.hand_overs = stages;
  if (tensor == 1) return waits;
  for (const LayerSpec& layer : spec.layers) {
    const int64_t mixers = (layer.has_attention() ? 1 : 0) + (layer.has_state() ? 1 : 0);
    const int64_t mlps = layer.mlp || layer.mixture ? 1 : 0;
    waits.sums += spec.parallel_block ? 1 : mixers + mlps;
    if (layer.has_attention() && spec.qk_norm == QkNorm::kWhole) ++waits.sums;
    if (layer.has_state_space() && spec.recurrence.norm != StateNorm::kNone) ++waits.sums;
  }
  ++waits.sums;
  return waits;
}

std::pair<int64_t, int64_t> LayersOf(const ModelSpec& spec, const GroupCut& cut, Rank rank) {
  if (cut.stage_layers.empty()) return {0, spec.num_layers()};
  const auto stage = cut.stage_layers.begin() + cut.StageOf(rank);
  const int64_t begin = std::accumulate(cut.stage_layers.begin(), stage, int64_t{0});
  return {begin, begin + *stage};
}

std::string StageText(const ModelSpec& spec, const GroupCut& cut, Rank rank) {
  if (cut.num_stages() == 1) return "";
  const auto [begin, end] = LayersOf(spec, cut, rank);
  return fmt::format("stage {} of {} (layers {} to {}), ", cut.StageOf(rank) + 1, cut.num_stages(), begin, end - 1);
}

std::vector<std::string> WaitLines(const ModelSpec& spec, const GroupCut& cut) {
  const int ranks = cut.num_ranks();
  if (ranks == 1) return {};
  const auto text = [&](int tensor, int stages) {
    const StepWaits waits = WaitsOf(spec, tensor, stages);
    return fmt::format("{} sums and {} hand-overs a step with -tp {} -pp {}", waits.sums, waits.hand_overs, tensor,
                       stages);
  };
  std::vector<std::string> lines = {text(cut.stage_size(), cut.num_stages())};
  if (cut.num_stages() == 1) {
    lines.push_back(text(1, ranks) + ": fewer, but with fewer streams than stages some stages wait");
  } else if (ranks <= spec.num_heads) {
    lines.push_back(text(ranks, 1) + ": more, but all ranks compute at once");
  }
  return lines;
}

}  // namespace quire
