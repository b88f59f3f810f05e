#include "worker/model/shard.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "comm/model/stage_plan.h"

namespace quire {

namespace {

std::vector<Range> ToRanges(const std::vector<int64_t>& counts) {
  std::vector<Range> ranges;
  int64_t at = 0;
  for (const int64_t count : counts) {
    ranges.push_back({at, at + count});
    at += count;
  }
  return ranges;
}

/// Rounds non-negative amounts to integers with the same total: takes the floors, then adds one to the amounts with the
/// largest remainders (lower index first).
std::vector<int64_t> RoundKeepingSum(const std::vector<double>& amounts, int64_t total) {
  std::vector<int64_t> counts;
  for (const double amount : amounts) counts.push_back(static_cast<int64_t>(std::floor(amount + 1e-9)));
  std::vector<size_t> order(amounts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return amounts[a] - static_cast<double>(counts[a]) > amounts[b] - static_cast<double>(counts[b]) + 1e-9;
  });
  int64_t left = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[order[i]];
  return counts;
}

/// Splits heads in proportion to the shares; every rank gets at least one.
std::vector<int64_t> SplitHeads(int64_t heads, const std::vector<double>& shares) {
  const auto ranks = static_cast<int64_t>(shares.size());
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> extra;
  for (const double share : shares) extra.push_back(std::max(0.0, static_cast<double>(heads) * share / sum - 1));
  const double wanted = std::accumulate(extra.begin(), extra.end(), 0.0);
  for (double& e : extra) e *= wanted > 0 ? static_cast<double>(heads - ranks) / wanted : 0;
  std::vector<int64_t> counts = RoundKeepingSum(extra, heads - ranks);
  for (int64_t& count : counts) ++count;
  return counts;
}

/// Returns the number of columns in each piece when `columns` MLP columns are split over the ranks.
int64_t UnitOf(int64_t columns) { return columns % kMlpUnit == 0 ? kMlpUnit : 1; }

/// Splits `units` pieces of `cost` each so that load / share is as even as possible over the ranks, and adds the
/// pieces' cost to the loads. Returns the number of pieces per rank. Finds by bisection the level of load / share up to
/// which every rank is filled.
std::vector<int64_t> FillUp(int64_t units, double cost, const std::vector<double>& shares, std::vector<double>& loads) {
  const auto pieces_at = [&](double level) {
    std::vector<double> pieces;
    for (size_t r = 0; r < shares.size(); ++r) pieces.push_back(std::max(0.0, (level * shares[r] - loads[r]) / cost));
    return pieces;
  };
  double low = 0, high = 1;
  const auto total_at = [&](double level) {
    const auto pieces = pieces_at(level);
    return std::accumulate(pieces.begin(), pieces.end(), 0.0);
  };
  while (total_at(high) < static_cast<double>(units)) high *= 2;
  for (int i = 0; i < 200; ++i)
    (total_at((low + high) / 2) < static_cast<double>(units) ? low : high) = (low + high) / 2;
  const auto counts = RoundKeepingSum(pieces_at(low), units);
  for (size_t r = 0; r < shares.size(); ++r) loads[r] += static_cast<double>(counts[r]) * cost;
  return counts;
}

/// Returns the KV heads that the query heads `heads` need; `group` query heads share one KV head.
LayerShard KvHeadsOf(const Range& heads, int64_t group) {
  LayerShard shard;
  shard.kv_heads = {heads.begin / group, (heads.end - 1) / group + 1};
  for (int64_t kv = shard.kv_heads.begin; kv < shard.kv_heads.end; ++kv)
    shard.head_start.push_back(static_cast<int32_t>(std::max(kv * group, heads.begin) - heads.begin));
  shard.head_start.push_back(static_cast<int32_t>(heads.size()));
  return shard;
}

/// Returns how many matrix elements of all layers together belong to the rank's heads.
int64_t NumbersOfHeads(const ModelSpec& spec, const RankShard& shard) {
  const std::vector<int64_t> queries = LayerNumbersPerUnit(spec, Axis::kQueries);
  const std::vector<int64_t> kv = LayerNumbersPerUnit(spec, Axis::kKeyValues);
  const std::vector<int64_t> values = LayerNumbersPerUnit(spec, Axis::kValues);
  const std::vector<int64_t> attended = LayerNumbersPerUnit(spec, Axis::kAttended);
  int64_t numbers = 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const int64_t heads = shard.heads.size(), kv_heads = shard.layers[i].kv_heads.size();
    numbers += spec.layers[i].head_dim * (queries[i] * heads + kv[i] * kv_heads);
    numbers += spec.layers[i].value_size() * (attended[i] * heads + values[i] * kv_heads);
  }
  for (const Axis axis : {Axis::kLatents, Axis::kQueryParts, Axis::kKeyParts, Axis::kValueParts})
    numbers += MatrixNumbersPerUnit(spec, axis) * NumbersPerHead(spec.latent, axis) * shard.heads.size();
  return numbers;
}

/// Returns, for each MLP size of the model, the cost of one column: the number of its matrix elements in all layers of
/// this size.
std::map<int64_t, int64_t> MlpNumbersBySize(const ModelSpec& spec) {
  const std::vector<int64_t> of_layers = LayerNumbersPerUnit(spec, Axis::kMlp);
  std::map<int64_t, int64_t> numbers;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (of_layers[i] > 0) numbers[spec.layers[i].intermediate_size] += of_layers[i];
  }
  return numbers;
}

/// Says how heads that keep a state are split. With the gated delta rule, all value heads of a key head go to one rank.
/// State spaces split value heads one by one, because a model may have a single key head.
struct StateHeads {
  int64_t at_once;
  double cost;  // cost of one unit, in units of hidden_size numbers
};

StateHeads StateHeadsOf(const ModelSpec& spec) {
  const Recurrence& r = spec.recurrence;
  const bool by_key =
      std::ranges::any_of(spec.layers, [](const LayerSpec& l) { return l.mixer == Mixer::kGatedDelta; });
  const int64_t heads = by_key ? r.heads_per_key() : 1;
  const int64_t of_keys = by_key ? r.key_dim * MatrixNumbersPerUnit(spec, Axis::kStateKeys) : 0;
  const int64_t of_values = heads * (r.value_dim * MatrixNumbersPerUnit(spec, Axis::kStateValues) +
                                     MatrixNumbersPerUnit(spec, Axis::kStateHeads));
  return {heads, static_cast<double>(of_keys + of_values) / static_cast<double>(spec.hidden_size)};
}

/// Returns the key heads that the value heads need; `group` value heads share one key head.
Range KeyHeadsOf(const Range& value_heads, int64_t group) {
  if (value_heads.size() == 0) return {value_heads.begin / group, value_heads.begin / group};
  return {value_heads.begin / group, (value_heads.end - 1) / group + 1};
}

/// Splits one axis after the other so that the ranks' loads, which are uneven after the split of query heads, become
/// even. A rank's load is the weights that it reads in a step of one token, in units of hidden_size numbers. Vectors
/// are too short to count.
class Dealer {
 public:
  Dealer(const ModelSpec& spec, const std::vector<double>& shares, std::vector<RankShard>& shards)
      : spec_(spec), shares_(shares), shards_(shards) {
    for (const RankShard& shard : shards) loads_.push_back(InRows(NumbersOfHeads(spec, shard)));
  }

  /// Splits the axis in pieces of `unit` numbers. Stores each rank's range in `part` of the rank's shard.
  void Deal(Axis axis, int64_t unit, Range RankShard::*part) {
    const double cost = CostOf(axis);
    if (cost == 0) return;  // no layer has this part
    Set(part, Fill(Extent(spec_, axis, 0), unit, cost));
  }

  void DealStateHeads() {
    const Recurrence& recurrence = spec_.recurrence;
    if (recurrence.key_heads == 0) return;
    const auto [at_once, cost] = StateHeadsOf(spec_);
    Set(&RankShard::value_heads, Fill(recurrence.value_heads, at_once, cost / static_cast<double>(at_once)));
    for (RankShard& shard : shards_) shard.key_heads = KeyHeadsOf(shard.value_heads, recurrence.heads_per_key());
  }

  /// Splits the columns of every expert, or with `whole` the experts.
  void DealExperts(bool whole) {
    const Mixture& mixture = spec_.mixture;
    if (!whole) {
      for (RankShard& shard : shards_) shard.experts = {0, mixture.experts};
      return Deal(Axis::kExpertMlp, UnitOf(mixture.intermediate_size), &RankShard::expert_mlp);
    }
    const double of_all = CostOf(Axis::kExpertMlp) * static_cast<double>(mixture.intermediate_size);
    Set(&RankShard::experts, Fill(mixture.experts, 1, of_all / static_cast<double>(mixture.experts)));
    for (RankShard& shard : shards_) {
      shard.whole_experts = true;
      shard.expert_mlp = {0, mixture.intermediate_size};
    }
  }

  /// Splits the MLPs of layers without a mixture, one MLP size after the other.
  void DealMlps() {
    for (const auto& [columns, numbers] : MlpNumbersBySize(spec_)) {
      const std::vector<Range> ranges = Fill(columns, UnitOf(columns), InRows(numbers));
      for (size_t i = 0; i < spec_.layers.size(); ++i) {
        if (spec_.layers[i].mixture || spec_.layers[i].intermediate_size != columns) continue;
        for (size_t r = 0; r < shards_.size(); ++r) shards_[r].layers[i].mlp = ranges[r];
      }
    }
  }

 private:
  double InRows(int64_t numbers) const { return static_cast<double>(numbers) / static_cast<double>(spec_.hidden_size); }
  double CostOf(Axis axis) const { return InRows(MatrixNumbersPerUnit(spec_, axis)); }

  /// Splits `columns` in pieces of `unit` columns. Returns each rank's range.
  std::vector<Range> Fill(int64_t columns, int64_t unit, double cost_of_column) {
    std::vector<int64_t> counts = FillUp(columns / unit, static_cast<double>(unit) * cost_of_column, shares_, loads_);
    for (int64_t& count : counts) count *= unit;
    return ToRanges(counts);
  }

  void Set(Range RankShard::*part, const std::vector<Range>& ranges) {
    for (size_t r = 0; r < shards_.size(); ++r) shards_[r].*part = ranges[r];
  }

  const ModelSpec& spec_;
  const std::vector<double>& shares_;
  std::vector<RankShard>& shards_;
  std::vector<double> loads_;
};

}  // namespace

int64_t CountedKvHeads(const ModelSpec& spec, const RankShard& shard, int64_t layer) {
  const Range& kv_heads = shard.layer(layer).kv_heads;
  const int64_t group = spec.num_heads / spec.layers[static_cast<size_t>(layer)].num_kv_heads;
  const bool begins_elsewhere = kv_heads.begin * group < shard.heads.begin;
  return kv_heads.size() - (begins_elsewhere ? 1 : 0);
}

int64_t QkvWidth(const ModelSpec& spec, const RankShard& shard, int64_t layer) {
  const LayerSpec& l = spec.layers[static_cast<size_t>(layer)];
  if (spec.latent.rank > 0) return l.head_dim * (shard.heads.size() + 1);
  const int64_t kv_heads = l.has_kv() ? shard.layer(layer).kv_heads.size() : 0;
  return l.head_dim * (shard.heads.size() + 2 * kv_heads) + GateWidth(spec, shard, layer);
}

std::vector<Range> VocabRanges(const std::vector<RankShard>& shards) {
  std::vector<Range> ranges;
  for (const RankShard& shard : shards) ranges.push_back(shard.vocab);
  return ranges;
}

int64_t GateWidth(const ModelSpec& spec, const RankShard& shard, int64_t layer) {
  if (!spec.attention_gate) return 0;
  return shard.heads.size() * (spec.gate_by_head ? 1 : spec.layers[static_cast<size_t>(layer)].head_dim);
}

int64_t ConvolvedChannels(const ModelSpec& spec, const RankShard& shard) {
  const Recurrence& r = spec.recurrence;
  if (r.channels > 0) return shard.channels.size();
  return 2 * shard.key_heads.size() * r.key_dim + shard.value_heads.size() * r.value_dim;
}

std::vector<RankShard> PlanShards(const ModelSpec& spec, const std::vector<double>& shares, bool expert_parallel) {
  if (expert_parallel && spec.num_mixture_layers() == 0) {
    FailSettings("--enable-expert-parallel is for mixtures of experts, and a model of {} has none here; leave it out",
                 spec.architecture);
  }
  const auto ranks = static_cast<int64_t>(shares.size());
  if (ranks < 1 || ranks > spec.num_heads) {
    FailSettings("tensor parallel size {} is impossible: the model has {} query heads, so 1 to {} ranks can share it",
                 ranks, spec.num_heads, spec.num_heads);
  }
  const auto heads = ToRanges(SplitHeads(spec.num_heads, shares));

  std::vector<RankShard> shards(shares.size());
  for (size_t r = 0; r < shards.size(); ++r) {
    shards[r].stage = {0, spec.num_layers()};
    shards[r].heads = heads[r];
    for (const LayerSpec& layer : spec.layers)
      shards[r].layers.push_back(KvHeadsOf(heads[r], spec.num_heads / layer.num_kv_heads));
  }
  Dealer dealer(spec, shares, shards);
  dealer.Deal(Axis::kChannels, UnitOf(spec.recurrence.channels), &RankShard::channels);
  dealer.DealStateHeads();
  dealer.DealExperts(expert_parallel);
  dealer.Deal(Axis::kSharedMlp, UnitOf(spec.mixture.shared_intermediate_size), &RankShard::shared_mlp);
  dealer.DealMlps();
  dealer.Deal(Axis::kVocab, 1, &RankShard::vocab);
  return shards;
}

std::vector<RankShard> PlanGroup(const ModelSpec& spec, const GroupCut& cut, bool expert_parallel) {
  const std::vector<RankShard> places = PlanShards(spec, cut.shares, expert_parallel);
  if (cut.stage_layers.empty()) return places;
  if (const std::string problem = StagesProblem(spec, cut.stage_layers); !problem.empty()) FailSettings("{}", problem);
  const std::vector<Range> stages = ToRanges({cut.stage_layers.begin(), cut.stage_layers.end()});
  std::vector<RankShard> ranks;
  for (Rank rank = 0; rank < cut.num_ranks(); ++rank) {
    ranks.push_back(places[static_cast<size_t>(cut.PlaceOf(rank))]);
    ranks.back().stage = stages[static_cast<size_t>(cut.StageOf(rank))];
  }
  return ranks;
}

}  // namespace quire
