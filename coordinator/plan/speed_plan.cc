#include "coordinator/plan/speed_plan.h"

#include <algorithm>
#include <array>

#include "comm/model/architecture.h"

namespace quire {

namespace {

/// The fractions of the peak rates that the engine reaches: in reading weights and the KV cache, in products, and in
/// attention. They were measured on two cores (docs/benchmarks/2026-11-26-plan.md) with tests/bench/plan_speed.py and
/// cpu_kernels_bench. Weights are read in sequence, keys and values from scattered blocks.
constexpr double kWeightsReached = 0.95, kKvReached = 0.85;
constexpr double kProductsReached = 0.65, kProductsInBytesReached = 0.58;
constexpr double kAttentionReached = 0.65, kAttentionInBytesReached = 0.36;
/// The fractions of attention's peak rate that a sequence with a single query row reaches: nothing is computed while
/// its keys and values are gathered.
constexpr double kFewRowsReached = 0.36, kFewRowsInBytesReached = 0.1;
/// The number of rows with which products reach half of their peak rate. With few rows, a core has too few independent
/// sums to add to at the same time.
constexpr double kHalfRows = 1.5;
/// The cost of everything else (norms, RoPE, rounding, all-reduces and waiting for them, overhead of a step), as fp32
/// operations at the peak rate, for each element of a token's row in each layer.
constexpr double kOtherOperations = 2800;

/// The part of the context that attention reads for one query.
struct Seen {
  double tokens;   // tokens whose keys and values are read, averaged over all layers' KV bytes
  double numbers;  // numbers of a query head times tokens seen, summed over the layers
};

Seen SeenAt(const ModelSpec& spec, int64_t tokens) {
  double kept = 0, read = 0, numbers = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.has_attention()) continue;
    const auto size = static_cast<double>(layer.num_kv_heads * layer.head_dim);
    // A query sees half of its chunk on average.
    const int64_t in_chunk = layer.chunk > 0 && tokens > layer.chunk ? layer.chunk / 2 : tokens;
    const auto seen = static_cast<double>(layer.window > 0 ? std::min(layer.window, tokens) : in_chunk);
    if (layer.has_kv()) kept += size;
    read += size * seen;
    numbers += static_cast<double>(layer.head_dim) * seen;
  }
  return {kept > 0 ? read / kept : 0, numbers};
}

/// Returns the operations of one query over its context in all layers: scores and weighted sums, a multiplication and
/// an addition each.
double AttentionOperations(const ModelSpec& spec, const Seen& seen) {
  return 4.0 * static_cast<double>(spec.num_heads) * seen.numbers;
}

double HeadOperations(const ModelSpec& spec) { return 2.0 * static_cast<double>(spec.hidden_size * spec.vocab_size); }

struct Work {
  double weight_bytes = 0, kv_bytes = 0;  // bytes read
  double products = 0, attention = 0;     // operations of matrix products and of attention
  double few_rows_attention = 0;          // attention operations of sequences with a single query row
  double other = 0;                       // equivalent fp32 operations at the peak rate
  double rows = 1;                        // rows of the products
};

double OtherOperations(const ModelSpec& spec, int64_t tokens) {
  return kOtherOperations * static_cast<double>(tokens * spec.num_layers() * spec.hidden_size);
}

double WeightBytes(const MemoryPlan& plan) {
  double bytes = 0;
  for (const RankInfo& rank : plan.ranks) bytes += static_cast<double>(rank.weight_bytes);
  return bytes;
}

double KvBytesOfToken(const MemoryPlan& plan) {
  double bytes = 0;
  for (const RankInfo& rank : plan.ranks) bytes += static_cast<double>(rank.bytes_per_block);
  return bytes / plan.assignment.block_size;
}

/// Predicts a step's time. At peak rates, reading and computing overlap fully; in practice, half of the shorter part
/// overlaps.
SpeedRow Judge(const Work& work, const PeakRates& peaks) {
  const double weights = work.weight_bytes / peaks.read_bytes, kv = work.kv_bytes / peaks.read_bytes;
  const double products = work.products / peaks.products;
  const double attention = work.attention / peaks.attention, few_rows = work.few_rows_attention / peaks.attention;
  const double weights_take = weights / kWeightsReached;
  const double kv_takes =
      kv / kKvReached + few_rows / (peaks.attention_in_bytes ? kFewRowsInBytesReached : kFewRowsReached);
  const double products_take = products / (peaks.products_in_bytes ? kProductsInBytesReached : kProductsReached) *
                               (work.rows + kHalfRows) / work.rows;
  const double attention_takes = attention / (peaks.attention_in_bytes ? kAttentionInBytesReached : kAttentionReached);
  const double other = work.other / peaks.multiply_add;
  SpeedRow row;
  row.roofline = std::max(weights + kv, products + attention + few_rows);
  const auto [shorter, longer] = std::minmax({weights_take + kv_takes, products_take + attention_takes});
  row.expected = longer + shorter / 2 + other;
  const std::array<std::pair<double, const char*>, 4> parts = {{{weights_take, "reading weights"},
                                                                {kv_takes, "reading the KV cache"},
                                                                {products_take, "products"},
                                                                {attention_takes, "attention"}}};
  const size_t first = weights_take + kv_takes >= products_take + attention_takes ? 0 : 2;
  row.bound = std::max(parts[first], parts[first + 1]).second;
  return row;
}

}  // namespace

StepCosts::StepCosts(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks)
    : spec_(spec),
      peaks_(peaks),
      weight_bytes_(WeightBytes(plan)),
      kv_bytes_(KvBytesOfToken(plan)),
      layer_operations_(2.0 * static_cast<double>(LayerMatrixNumbers(spec))),
      head_operations_(HeadOperations(spec)) {}

SpeedRow StepCosts::Of(std::span<const StepPart> members) {
  Work work;
  int64_t tokens = 0;
  for (const auto& [first, count, draws] : members) {
    const Seen before = SeenAt(spec_, first), after = count == 1 ? before : SeenAt(spec_, first + count - 1);
    tokens += count;
    work.kv_bytes += before.tokens * kv_bytes_;
    work.products += static_cast<double>(count) * layer_operations_ + (draws ? head_operations_ : 0);
    (count == 1 ? work.few_rows_attention : work.attention) +=
        static_cast<double>(count) * (AttentionOperations(spec_, before) + AttentionOperations(spec_, after)) / 2;
  }
  work.other = OtherOperations(spec_, tokens);
  work.rows = static_cast<double>(std::max<int64_t>(tokens, 1));
  const auto [part, is_new] = read_parts_.try_emplace(tokens, 0);
  if (is_new) part->second = ReadPart(spec_, tokens);
  work.weight_bytes = weight_bytes_ * part->second;
  return Judge(work, peaks_);
}

SpeedRow StepSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t sequences,
                   int64_t tokens) {
  const std::vector<StepPart> members(static_cast<size_t>(sequences), {.first = tokens});
  SpeedRow row = StepCosts(spec, plan, peaks).Of(members);
  row.sequences = sequences;
  row.tokens = tokens;
  return row;
}

SpeedRow PromptSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t tokens) {
  const int64_t step = plan.assignment.max_step_tokens;
  Work work;
  for (int64_t begin = 0; begin < tokens; begin += step) {
    const int64_t chunk = std::min(step, tokens - begin);
    const Seen before = SeenAt(spec, begin), after = SeenAt(spec, begin + chunk);
    work.weight_bytes += WeightBytes(plan) * ReadPart(spec, chunk);
    work.kv_bytes += before.tokens * KvBytesOfToken(plan);
    work.attention +=
        static_cast<double>(chunk) * (AttentionOperations(spec, before) + AttentionOperations(spec, after)) / 2;
  }
  work.products =
      static_cast<double>(tokens) * 2.0 * static_cast<double>(LayerMatrixNumbers(spec)) + HeadOperations(spec);
  work.other = OtherOperations(spec, tokens);
  work.rows = static_cast<double>(std::min(step, tokens));
  SpeedRow row = Judge(work, peaks);
  row.tokens = tokens;
  return row;
}

PeakRates RatesOfPart(const PeakRates& all, double part) {
  PeakRates one = all;
  for (double PeakRates::*rate :
       {&PeakRates::read_bytes, &PeakRates::products, &PeakRates::attention, &PeakRates::multiply_add})
    one.*rate *= part;
  return one;
}

bool HasQuantizedWeights(const ModelFiles& model, Quantization quantization) {
  return quantization != Quantization::kNone ||
         LayoutOf(model.Get(Role::kQuery, model.spec().first_attention_layer()).type).block_numbers > 1;
}

}  // namespace quire
