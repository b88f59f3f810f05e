// Measures causal attention of prompt chunks over a paged cache.
#include "kernels/cuda/prefill/prefill_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "kernels/cuda/paged/paged_decode.h"
#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/bench/flashinfer.h"
#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

namespace {

constexpr auto kBF16 = NumberType::kBF16;

struct Chunks {
  int32_t sequences, queries, context;  // per sequence; the queries are the last tokens of the context
};

class PrefillCase {
 public:
  PrefillCase(const Chunks& chunks, int32_t head_size, Device& device)
      : device_(device),
        chunks_(chunks),
        batch_({.contexts = std::vector<int32_t>(static_cast<size_t>(chunks.sequences), chunks.context),
                .head_size = head_size},
               device) {
    std::vector<int32_t> query_start;
    for (int32_t s = 0; s <= chunks.sequences; ++s) query_start.push_back(s * chunks.queries);
    query_start_ = OnDevice(device, query_start);
    const int64_t rows = query_start.back();
    library_ = MakeFlashInfer(batch_, query_start, device);
    queries_ = device.Allocate(rows * batch_.row() * 2, "queries");
    out_ = device.Allocate(rows * batch_.row() * 2, "results");
    FillRandom(device.stream(), queries_.as<void>(), rows * batch_.row(), kBF16, 1, 7);
    const int32_t tile_rows = kernels::PrefillTileRows(kBF16, head_size), group = batch_.shape().group;
    const kernels::PrefillSplit split{2 * device.num_sms(), batch_.Cache(0).num_kv_heads};
    std::vector<kernels::PrefillTile> tiles(
        static_cast<size_t>(kernels::PrefillTileCapacity(rows, chunks.sequences, group, tile_rows, split)));
    std::vector<kernels::PrefillMerge> merges(static_cast<size_t>(split.MaxMerges()));
    const kernels::PrefillPlanInputs inputs{
        query_start, batch_.shape().contexts, batch_.host_head_start(), tile_rows, 0, split};
    plan_ = kernels::PlanPrefill(inputs, tiles, merges);
    tiles_ = OnDevice(device, tiles);
    merges_ = OnDevice(device, merges);
    parts_ = device.Allocate(split.WorkspaceFloats(tile_rows, head_size) * 4, "parts of split tiles");
  }

  int64_t sets() const { return batch_.sets(); }

  /// Returns the output. For a single sequence with at most kMostJudged queries, the reference method is the decode
  /// kernel v2. For v2, each query is a sequence of its own. The sequence's last token is the query's token. All these
  /// sequences share one block table.
  Output output() {
    Output output{out_.as<void>(), out_.bytes(), batch_.shape().head_size};
    if (chunks_.sequences > 1 || chunks_.queries > kMostJudged) return output;
    std::vector<int32_t> seen(static_cast<size_t>(chunks_.queries));
    std::iota(seen.begin(), seen.end(), chunks_.context - chunks_.queries + 1);
    seen_ = OnDevice(device_, seen);
    const int64_t floats =
        kernels::DecodeWorkspaceFloats(chunks_.context, chunks_.queries, batch_.num_heads(), batch_.shape().head_size);
    partitions_ = device_.Allocate(floats * 4, "partitions of v2");
    output.judge_name = "v2";
    output.judge = [this] { PagedDecodeV2(device_.stream(), JudgeParams()); };
    return output;
  }

  /// Returns the operations of the two products: each takes 2 FLOP for every head, query, visible position and
  /// dimension of a head.
  double flops() const {
    const double seen =
        chunks_.queries * (chunks_.context - chunks_.queries) + chunks_.queries * (chunks_.queries + 1.0) / 2;
    return 4.0 * chunks_.sequences * batch_.num_heads() * batch_.shape().head_size * seen;
  }

  std::vector<Variant> Variants() {
    std::vector<Variant> variants = {{"prefill attention", [this](int64_t set) { Queue(set, false); }}};
    if (kernels::HasPrefillInGroups(batch_.shape().head_size))
      variants.push_back({"by warpgroups", [this](int64_t set) { Queue(set, true); }});
    if (library_ != nullptr) {
      const auto queue = [this](int64_t set) { library_->Queue(set, queries_.as<void>(), out_.as<void>()); };
      variants.push_back({"FlashInfer", queue});
    }
    return variants;
  }

 private:
  void Queue(int64_t set, bool in_groups) const {
    PrefillAttention(device_.stream(), {.dtype = kBF16,
                                        .queries = queries_.as<void>(),
                                        .query_stride = batch_.row(),
                                        .out = out_.as<void>(),
                                        .out_stride = batch_.row(),
                                        .cache = batch_.Cache(set),
                                        .block_tables = batch_.tables(),
                                        .table_stride = batch_.table_stride(),
                                        .table_rows = nullptr,
                                        .query_start = query_start_.as<int32_t>(),
                                        .context_len = batch_.contexts(),
                                        .head_start = batch_.head_start(),
                                        .alibi_slopes = nullptr,
                                        .tiles = tiles_.as<kernels::PrefillTile>(),
                                        .num_tiles = static_cast<int32_t>(plan_.num_tiles),
                                        .scale = Scale(),
                                        .soft_cap = 0,
                                        .window = 0,
                                        .merges = merges_.as<kernels::PrefillMerge>(),
                                        .num_merges = static_cast<int32_t>(plan_.num_merges),
                                        .workspace = parts_.as<float>(),
                                        .in_groups = in_groups});
  }

  static constexpr int32_t kMostJudged = 4096;

  kernels::PagedDecodeParams JudgeParams() const {
    return {.dtype = kBF16,
            .queries = queries_.as<void>(),
            .query_stride = batch_.row(),
            .out = out_.as<void>(),
            .out_stride = batch_.row(),
            .cache = batch_.Cache(sets() - 1),
            .block_tables = batch_.tables(),
            .table_stride = 0,
            .context_len = seen_.as<int32_t>(),
            .kv_head_of = batch_.kv_head_of(),
            .alibi_slopes = nullptr,
            .num_seqs = chunks_.queries,
            .num_heads = batch_.num_heads(),
            .max_context_len = chunks_.context,
            .scale = Scale(),
            .soft_cap = 0,
            .window = 0,
            .workspace = partitions_.as<float>()};
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(batch_.shape().head_size)); }

  Device& device_;
  Chunks chunks_;
  PagedBatch batch_;
  std::unique_ptr<FlashInferAttention> library_;
  kernels::PrefillPlan plan_{};
  DeviceMemory query_start_, queries_, out_, tiles_, merges_, parts_;
  DeviceMemory seen_, partitions_;  // used by the reference, which is v2
};

}  // namespace

void BenchPrefillAttention(Bench& bench) {
  for (const int32_t head_size : {64, 128}) {
    for (const Chunks& chunks :
         {Chunks{8, 512, 512}, Chunks{4, 1024, 1024}, Chunks{2, 2048, 2048}, Chunks{1, 4096, 4096},
          Chunks{1, 16384, 16384}, Chunks{1, 512, 16384}, Chunks{1, 16, 32768}}) {
      PrefillCase c(chunks, head_size, bench.device());
      const std::string at = chunks.queries == chunks.context ? "" : fmt::format(" at the end of {}", chunks.context);
      bench.Measure({.section = "prefill attention",
                     .name = fmt::format("{} x {} tokens{}, head size {}, 32 heads, GQA 4", chunks.sequences,
                                         chunks.queries, at, head_size),
                     .flops = c.flops(),
                     .formula = "4 * heads * head size * sum over queries of the positions they see",
                     .sets = c.sets(),
                     .facts = {{"head_size", head_size}, {"queries", chunks.queries}, {"context", chunks.context}},
                     .output = c.output()},
                    c.Variants());
    }
  }
}

}  // namespace quire::bench
