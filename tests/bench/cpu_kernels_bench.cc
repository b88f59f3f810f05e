// The CPU's kernels against the ceilings of the same thread, on its own clock: other work on the machine takes turns
// with it but is not counted. cpu_kernels_bench [attention|products|rounding]...; QUIRE_ISA picks a lesser instruction
// set.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/isa/table.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"

namespace quire::kernels {
namespace {

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The least seconds that a call took: in at least five of them, and for at least `enough` seconds in all.
double Least(const std::function<void()>& call, double enough = 0.15) {
  double best = 1e9, all = 0;
  for (int i = 0; i < 5 || all < enough; ++i) {
    const double begin = ThreadSeconds();
    call();
    const double took = ThreadSeconds() - begin;
    best = std::min(best, took);
    all += took;
  }
  return best;
}

double Peak(Arithmetic arithmetic) {
  constexpr int64_t kRounds = 1'000'000;
  double operations = 0;
  const double seconds = Least([&] { operations = ActiveTable().run_peak(arithmetic, kRounds); }, 0.1);
  return operations / seconds;
}

std::vector<float> Floats(int64_t count) {
  std::minstd_rand random(7);
  std::vector<float> list(static_cast<size_t>(count));
  for (float& x : list) x = static_cast<float>(random()) * 0x1p-30f - 1.0f;
  return list;
}

/// The last `queries` of `context` tokens, in blocks of 16 that lie in no order.
void MeasureAttention(const CpuStream& stream, NumberType type, Activations activations, int64_t heads,
                      int64_t kv_heads, int64_t dim, int64_t context, int64_t queries) {
  constexpr int64_t kBlockSize = 16;
  const int64_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const int64_t half = kv_heads * KvHeadBytes(type, dim, kBlockSize);
  std::vector<std::byte> pool(static_cast<size_t>(blocks * 2 * half));
  const KvCacheView cache{pool.data(), pool.data() + half, 2 * half, kv_heads, dim, kBlockSize, type};
  std::vector<int32_t> table(static_cast<size_t>(blocks)), head_start;
  for (int64_t b = 0; b < blocks; ++b) table[static_cast<size_t>(b)] = static_cast<int32_t>(b);
  std::shuffle(table.begin(), table.end(), std::minstd_rand(3));
  for (int64_t h = 0; h <= kv_heads; ++h) head_start.push_back(static_cast<int32_t>(heads / kv_heads * h));
  std::vector<int64_t> slots;
  for (int64_t t = 0; t < context; ++t)
    slots.push_back(table[static_cast<size_t>(t / kBlockSize)] * kBlockSize + t % kBlockSize);
  const std::vector<float> tokens = Floats(context * kv_heads * dim), rows = Floats(queries * heads * dim);
  KvWrite(stream, {tokens.data(), tokens.data(), kv_heads * dim, slots.data(), context, cache});
  std::vector<float> out(rows.size());
  const int32_t start[] = {0, static_cast<int32_t>(queries)}, length[] = {static_cast<int32_t>(context)};
  const PagedAttentionParams params{rows.data(), heads * dim, out.data(), heads * dim,       cache,      table.data(),
                                    blocks,      start,       length,     head_start.data(), 1,          heads,
                                    0.125f,      0,           0,          nullptr,           activations};
  const double seconds = Least([&] { PagedAttention(stream, params); });
  const double seen =
      static_cast<double>(queries) * static_cast<double>(context) - 0.5 * static_cast<double>(queries * (queries - 1));
  const double operations = 4 * seen * static_cast<double>(heads * dim), peak = Peak(Arithmetic::kMultiplyAdd);
  const char* name = activations == Activations::kInt8 ? "bytes" : LayoutOf(type).name;
  fmt::print(
      "attention {:>5} {:>2}/{} heads of {:>3}, {:>4} queries of {:>5}: {:>9.3f} ms, {:>6.1f} GFLOP/s, {:.2f} of the "
      "peak\n",
      name, heads, kv_heads, dim, queries, context, seconds * 1e3, operations / seconds * 1e-9,
      operations / seconds / peak);
}

void MeasureAttention(const CpuStream& stream) {
  for (const auto& [type, activations] : {std::pair{NumberType::kF16, Activations::kInt16},
                                          {NumberType::kF32, Activations::kInt16},
                                          {NumberType::kInt8, Activations::kInt16},
                                          {NumberType::kInt8, Activations::kInt8}}) {
    const auto measure = [&, type = type, activations = activations](auto... shape) {
      MeasureAttention(stream, type, activations, shape...);
    };
    for (const int64_t context : {512, 2048, 4096}) measure(9, 3, 64, context, context);
    measure(32, 8, 64, 2048, 512);
    measure(8, 8, 128, 2048, 512);
    for (const int64_t queries : {1, 4, 8, 32}) measure(9, 3, 64, 2048, queries);
  }
}

void MeasureProduct(const CpuStream& stream, NumberType type, Activations activations, int64_t m, int64_t n,
                    int64_t k) {
  const Arithmetic arithmetic = type == NumberType::kF32 || type == NumberType::kBF16 ? Arithmetic::kMultiplyAdd
                                : activations == Activations::kInt8                   ? Arithmetic::kInt8
                                                                                      : Arithmetic::kInt16;
  const std::vector<float> x = Floats(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  // Any bytes are numbers of these types; those of scales are made ones by way of a mild pattern.
  std::vector<std::byte> data(static_cast<size_t>(PackedBytes(type, n, k)), std::byte{0x31});
  const PackedWeight weight{type, data.data(), n, k};
  const MatmulParams params{x.data(), k, &weight, 1, y.data(), n, m, activations};
  const double seconds = Least([&] { Matmul(stream, params); });
  const double operations = 2.0 * static_cast<double>(m * n * k), peak = Peak(arithmetic);
  fmt::print("product {:>5} by {}, {:>4} x {} x {}: {:>8.3f} ms, {:>7.1f} GOP/s, {:.2f} of the peak\n",
             LayoutOf(type).name,
             arithmetic == Arithmetic::kInt8    ? "int8 "
             : arithmetic == Arithmetic::kInt16 ? "int16"
                                                : "fp32 ",
             m, n, k, seconds * 1e3, operations / seconds * 1e-9, operations / seconds / peak);
}

void MeasureProducts(const CpuStream& stream) {
  struct Form {
    NumberType type;
    Activations activations;
  };
  for (const auto& [type, activations] : {Form{NumberType::kQ8_0, Activations::kInt8},
                                          {NumberType::kQ4_1, Activations::kInt8},
                                          {NumberType::kQ8_0, Activations::kInt16},
                                          {NumberType::kQ4_1, Activations::kInt16},
                                          {NumberType::kBF16, Activations::kInt16},
                                          {NumberType::kF32, Activations::kInt16}}) {
    for (const int64_t m : {1, 4, 8, 32, 64, 512}) MeasureProduct(stream, type, activations, m, 1536, 576);
    MeasureProduct(stream, type, activations, 512, 2048, 2048);
  }
}

void MeasureRounding() {
  constexpr int64_t kColumns = 1 << 14;  // in the second-level cache, as rows are that were just computed
  const std::vector<float> x = Floats(kColumns);
  std::vector<int16_t> words(x.size());
  std::vector<int8_t> bytes(x.size());
  std::vector<float> scales(x.size() / kQuantBlock), sums(scales.size());
  std::vector<int32_t> totals(scales.size());
  const auto report = [](const char* name, double seconds) {
    fmt::print("rounding to {}: {:.2f} G numbers a second\n", name, static_cast<double>(kColumns) / seconds * 1e-9);
  };
  const IsaTable& table = ActiveTable();
  report(
      "int16",
      Least([&] { table.quantize_int16(x.data(), kColumns, words.data(), scales.data(), totals.data(), sums.data()); },
            0.1));
  report(
      "int8",
      Least([&] { table.quantize_int8(x.data(), kColumns, bytes.data(), scales.data(), totals.data(), sums.data()); },
            0.1));
}

int Main(int argc, char** argv) {
  const auto wanted = [&](const char* what) {
    return argc == 1 ||
           std::any_of(argv + 1, argv + argc, [&](const char* arg) { return std::strcmp(arg, what) == 0; });
  };
  const CpuStream stream(1);
  fmt::print("{}: {:.1f} fp32 GFLOP/s, {:.1f} int16 and {:.1f} int8 GOP/s a thread\n", CpuIsaName(),
             Peak(Arithmetic::kMultiplyAdd) * 1e-9, Peak(Arithmetic::kInt16) * 1e-9, Peak(Arithmetic::kInt8) * 1e-9);
  if (wanted("attention")) MeasureAttention(stream);
  if (wanted("products")) MeasureProducts(stream);
  if (wanted("rounding")) MeasureRounding();
  return 0;
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) { return quire::kernels::Main(argc, argv); }
