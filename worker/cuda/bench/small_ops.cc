// Measures the kernels between matrix products and attention, at the sizes of a model with 8 billion weights, and block
// copies.
#include <fmt/format.h>

#include "kernels/block_copy.h"
#include "kernels/cuda/elementwise/rope_kv_write.h"
#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/rms_norm.h"
#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

namespace {

constexpr auto kBF16 = NumberType::kBF16;
constexpr int64_t kHidden = 4096, kMlp = 14336, kHeads = 32, kKvHeads = 8, kHead = 128, kVocab = 128256;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHead;

/// `sets` sets of random rows. Each call uses the next set.
struct Rows {
  Rows(Device& device, int64_t sets, int64_t rows, int64_t width)
      : set_bytes(rows * width * 2), memory(device.Allocate(sets * set_bytes, "rows")) {
    FillRandom(device.stream(), memory.as<void>(), sets * rows * width, kBF16, 1, 10);
  }
  void* of(int64_t set) const { return memory.as() + set * set_bytes; }

  int64_t set_bytes;
  DeviceMemory memory;
};

Case RowCase(const char* op, int64_t rows, double bytes, const char* formula, int64_t sets) {
  return {.section = "small ops",
          .name = fmt::format("{}, {} rows", op, rows),
          .bytes = bytes,
          .formula = formula,
          .sets = sets,
          .facts = {{"op", op}, {"rows", rows}}};
}

void MeasureRowOps(Bench& bench, int64_t rows) {
  Device& device = bench.device();
  const auto stream = device.stream();
  const auto count = static_cast<double>(rows);
  const int64_t norm_sets = SetsFor(rows * kHidden * 2 * 3), mlp_sets = SetsFor(rows * kMlp * 2 * 3);
  const Rows residual(device, norm_sets, rows, kHidden), delta(device, norm_sets, rows, kHidden),
      out(device, norm_sets, rows, kHidden), weight(device, 1, 1, kHidden);
  bench.Measure(
      RowCase("residual + RMSNorm", rows, 2.0 * kHidden * (4 * count + 1), "4 rows of 4,096 and the weight, 2 B",
              norm_sets),
      {{"RmsNorm", [&](int64_t set) {
          RmsNorm(stream, {kBF16, residual.of(set), delta.of(set), weight.of(0), out.of(set), rows, kHidden, 1e-5f});
        }}});
  const Rows gate_up(device, mlp_sets, rows, 2 * kMlp), activated(device, mlp_sets, rows, kMlp);
  bench.Measure(RowCase("SiLU * up", rows, 2.0 * 3 * kMlp * count, "3 rows of 14,336, 2 B", mlp_sets),
                {{"GateMul", [&](int64_t set) {
                    GateMul(stream, {kBF16, gate_up.of(set), activated.of(set), rows, kMlp, true});
                  }}});
  std::vector<int32_t> ids(static_cast<size_t>(rows * norm_sets));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7919 % kVocab);
  const DeviceMemory tokens = OnDevice(device, ids);
  const Rows table(device, 1, kVocab, kHidden);
  bench.Measure(RowCase("embedding", rows, 2.0 * 2 * kHidden * count, "2 rows of 4,096, 2 B", norm_sets),
                {{"Embedding", [&](int64_t set) {
                    Embedding(stream,
                              {.dtype = kBF16,
                               .table = {kBF16, static_cast<std::byte*>(table.of(0)), kVocab, kHidden, kHidden * 2},
                               .token_ids = tokens.as<int32_t>() + set * rows,
                               .out = out.of(set),
                               .num_tokens = rows});
                  }}});
}

void MeasureRope(Bench& bench, int64_t rows) {
  Device& device = bench.device();
  const PagedBatch batch({.contexts = std::vector<int32_t>(static_cast<size_t>(rows), 16)}, device);
  const int64_t sets = SetsFor(rows * kQkv * 2);
  const Rows qkv(device, sets, rows, kQkv);
  std::vector<int32_t> positions(static_cast<size_t>(rows), 1000);
  std::vector<int64_t> slots(static_cast<size_t>(rows));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i) * 16 + static_cast<int64_t>(i % 16);
  const DeviceMemory at = OnDevice(device, positions), to = OnDevice(device, slots);
  const DeviceMemory cos_sin = OnDevice(device, std::vector<float>(4096 * kHead, 0.7f));
  bench.Measure(RowCase("RoPE + KV write", rows, 2.0 * 2 * kQkv * static_cast<double>(rows),
                        "a row of queries, keys and values read and written, 2 B", sets),
                {{"RopeKvWrite", [&](int64_t set) {
                    RopeKvWrite(device.stream(),
                                {kBF16, qkv.of(set), kQkv, cos_sin.as<float>(), at.as<int32_t>(), to.as<int64_t>(),
                                 rows, kHeads, kHead, batch.Cache(set % batch.sets())});
                  }}});
}

/// Measures copies of blocks of 16 tokens of all 32 layers: 2 MiB each.
void MeasureBlockCopies(Bench& bench) {
  Device& device = bench.device();
  constexpr int64_t kBlockBytes = 16 * 128 * 1024, kBlocks = 64;
  const Rows pool(device, 4 * kBlocks, 1, kBlockBytes / 2);
  std::vector<int32_t> pairs;
  for (int32_t i = 0; i < kBlocks; ++i)
    pairs.insert(pairs.end(), {i, static_cast<int32_t>(kBlocks + (i * 37) % kBlocks)});
  const DeviceMemory ids = OnDevice(device, pairs), host = device.AllocateHost(kBlocks * kBlockBytes, "host blocks");
  const double bytes = kBlocks * kBlockBytes;
  auto* blocks = static_cast<std::byte*>(pool.of(0));
  bench.Measure({.section = "block moves",
                 .name = "64 blocks of 2 MiB on the device",
                 .bytes = 2 * bytes,
                 .formula = "bytes read + bytes written"},
                {{"copy on write", [&](int64_t) {
                    BlockCopy(device.stream(), {blocks, blocks, kBlockBytes, ids.as<int32_t>(), kBlocks});
                  }}});
  bench.Measure({.section = "block moves",
                 .name = "64 blocks of 2 MiB, device and page-locked host",
                 .bytes = bytes,
                 .formula = "bytes moved"},
                {{"swap out",
                  [&](int64_t) {
                    for (int64_t i = 0; i < kBlocks; ++i) {
                      device.CopyToHost(host.as() + i * kBlockBytes, blocks + i * kBlockBytes, kBlockBytes);
                    }
                  }},
                 {"swap in", [&](int64_t) {
                    for (int64_t i = 0; i < kBlocks; ++i) {
                      device.CopyToDevice(blocks + i * kBlockBytes, host.as() + i * kBlockBytes, kBlockBytes);
                    }
                  }}});
}

}  // namespace

void BenchSmallOps(Bench& bench) {
  for (const int64_t rows : {1, 64, 4096}) {
    MeasureRowOps(bench, rows);
    MeasureRope(bench, rows);
  }
  MeasureBlockCopies(bench);
}

}  // namespace quire::bench
