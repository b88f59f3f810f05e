// Measures attention of one new token per sequence, for several lengths, groups, types and block sizes: the planned
// kernel (DecodeAttention) against the baseline kernels v1 and v2 and, in builds with it, FlashInfer. Each kernel call
// lists its params, as a caller would, so that a reader sees in one place what is measured.
#include "kernels/cuda/decode/decode_attention.h"

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
constexpr int32_t kMaxV1Context = 49152;  // the longest context whose scores fit into shared memory

/// All kernels for one batch, with their memory.
class DecodeCase {
 public:
  DecodeCase(const PagedShape& shape, Device& device) : device_(device), batch_(shape, device) {
    const auto seqs = static_cast<int64_t>(shape.contexts.size());
    queries_ = device.Allocate(seqs * batch_.row() * 2, "queries");
    out_ = device.Allocate(seqs * batch_.row() * 2, "results");
    FillRandom(device.stream(), queries_.as<void>(), seqs * batch_.row(), kBF16, 1, 6);
    PlanWork();
    const int64_t floats =
        kernels::DecodeWorkspaceFloats(batch_.max_context(), seqs, batch_.num_heads(), shape.head_size);
    partitions_ = device.Allocate(floats * 4, "partitions of v2");
    std::vector<int32_t> query_start(shape.contexts.size() + 1);
    std::iota(query_start.begin(), query_start.end(), 0);
    library_ = MakeFlashInfer(batch_, query_start, device);
  }

  const PagedBatch& batch() const { return batch_; }
  double bytes() const { return batch_.kv_bytes() + static_cast<double>(queries_.bytes() + out_.bytes()); }
  bool split() const { return combine_; }
  Output output() const { return {out_.as<void>(), out_.bytes(), batch_.shape().head_size}; }

  std::vector<Variant> Variants(bool baselines) {
    std::vector<Variant> variants = {
        {"decode attention", [this](int64_t set) { DecodeAttention(device_.stream(), Params(set)); }}};
    if (library_ != nullptr) {
      const auto queue = [this](int64_t set) { library_->Queue(set, queries_.as<void>(), out_.as<void>()); };
      variants.push_back({"FlashInfer", queue});
    }
    if (!baselines) return variants;
    if (batch_.max_context() <= kMaxV1Context)
      variants.push_back({"v1", [this](int64_t set) { PagedDecodeV1(device_.stream(), BaselineParams(set)); }});
    variants.push_back({"v2", [this](int64_t set) { PagedDecodeV2(device_.stream(), BaselineParams(set)); }});
    return variants;
  }

 private:
  void PlanWork() {
    const PagedShape& shape = batch_.shape();
    const kernels::DecodeGrid grid =
        kernels::ChooseDecodeGrid({device_.num_sms(), device_.shared_bytes_per_sm(), device_.shared_bytes_per_block()},
                                  kBF16, shape.cache, shape.head_size);
    stages_ = grid.stages;
    size_ = {grid.num_ctas,
             static_cast<int32_t>(shape.contexts.size()) * kernels::NumHeadTiles(batch_.host_head_start())};
    std::vector<int32_t> work(static_cast<size_t>(size_.Words()));
    combine_ = kernels::PlanDecode(size_, shape.contexts, batch_.host_head_start(), 0, work).combine;
    work_ = OnDevice(device_, work);
    workspace_ = device_.Allocate(size_.WorkspaceFloats(shape.head_size) * 4, "parts of split contexts");
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(batch_.shape().head_size)); }

  kernels::DecodeAttentionParams Params(int64_t set) const {
    return {.dtype = kBF16,
            .queries = queries_.as<void>(),
            .query_stride = batch_.row(),
            .out = out_.as<void>(),
            .out_stride = batch_.row(),
            .cache = batch_.Cache(set),
            .block_tables = batch_.tables(),
            .table_stride = batch_.table_stride(),
            .table_rows = nullptr,
            .alibi_slopes = nullptr,
            .scale = Scale(),
            .soft_cap = 0,
            .work = work_.as<int32_t>(),
            .work_size = size_,
            .stages = stages_,
            .combine = combine_,
            .workspace = workspace_.as<float>()};
  }

  kernels::PagedDecodeParams BaselineParams(int64_t set) const {
    return {.dtype = kBF16,
            .queries = queries_.as<void>(),
            .query_stride = batch_.row(),
            .out = out_.as<void>(),
            .out_stride = batch_.row(),
            .cache = batch_.Cache(set),
            .block_tables = batch_.tables(),
            .table_stride = batch_.table_stride(),
            .table_rows = nullptr,
            .context_len = batch_.contexts(),
            .kv_head_of = batch_.kv_head_of(),
            .alibi_slopes = nullptr,
            .num_seqs = static_cast<int32_t>(batch_.shape().contexts.size()),
            .num_heads = batch_.num_heads(),
            .max_context_len = batch_.max_context(),
            .scale = Scale(),
            .soft_cap = 0,
            .window = 0,
            .workspace = partitions_.as<float>()};
  }

  Device& device_;
  PagedBatch batch_;
  kernels::DecodeWorkSize size_{};
  int32_t stages_ = 0;
  bool combine_ = false;
  std::unique_ptr<FlashInferAttention> library_;
  DeviceMemory queries_, out_, work_, workspace_, partitions_;
};

struct Lengths {
  const char* name;
  std::vector<int32_t> contexts;
};

double MeasureShape(Bench& bench, const std::string& name, const PagedShape& shape, bool baselines) {
  DecodeCase c(shape, bench.device());
  const bool fp8 = shape.cache == NumberType::kFp8E4M3;
  return bench
      .Measure({.section = "decode attention",
                .name = name,
                .bytes = c.bytes(),
                .formula = fmt::format("2 * {:.0f} tokens * {} kv heads * {} * {} B + queries + results",
                                       c.batch().context_sum(), shape.kv_heads, shape.head_size, fp8 ? 1 : 2),
                .sets = c.batch().sets(),
                .facts = {{"block_size", shape.block_size},
                          {"group", shape.group},
                          {"kv", fp8 ? "fp8" : "bf16"},
                          {"ordered", shape.ordered},
                          {"split", c.split()}},
                .output = c.output()},
               c.Variants(baselines))[0]
      .median;
}

}  // namespace

void BenchDecodeAttention(Bench& bench) {
  std::vector<int32_t> skewed(16, 4096);
  skewed[0] = 65536;
  const Lengths lengths[] = {{"32 x 4K", std::vector<int32_t>(32, 4096)},
                             {"8 x 8K", std::vector<int32_t>(8, 8192)},
                             {"1 x 32K", {32768}},
                             {"1 x 1K", {1024}},
                             {"1 x 64K + 15 x 4K", skewed}};
  for (const Lengths& l : lengths) {
    for (const int32_t group : {4, 8}) {
      for (const auto cache : {NumberType::kBF16, NumberType::kFp8E4M3}) {
        const char* kv = cache == NumberType::kBF16 ? "bf16" : "FP8";
        MeasureShape(bench, fmt::format("{}, GQA {}, {}", l.name, group, kv),
                     {.contexts = l.contexts, .group = group, .cache = cache}, true);
      }
    }
  }
  for (const int32_t block : {8, 16, 32, 64}) {
    for (const bool ordered : {false, true}) {
      MeasureShape(bench,
                   fmt::format("32 x 4K, GQA 4, bf16, blocks of {} {}", block, ordered ? "in order" : "shuffled"),
                   {.contexts = std::vector<int32_t>(32, 4096), .block_size = block, .ordered = ordered}, false);
    }
  }
}

}  // namespace quire::bench
