// Compares the CPU kernels with the peak rates of the same thread. The time is the thread's processor time, so other
// work on the machine does not count. `collecting` and `steps` measure all threads together in wall-clock time, and
// need an idle machine. Usage: cpu_kernels_bench [attention|products|rounding|collecting|steps]...; QUIRE_ISA selects a
// lesser instruction set.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/ceilings.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"

namespace quire::kernels {
namespace {

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Returns the shortest time of a call in seconds, of at least five calls that take at least `enough` seconds in total.
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

/// Measures attention of the last `queries` of `context` tokens, in blocks of 16 tokens in random order.
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
    for (const int64_t heads : {4, 8}) measure(heads, 4, 64, 2048, 2048);
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
  // Any bytes are valid numbers of these types. This pattern also gives moderate scales.
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
    for (const int64_t m : {1, 2, 4, 8, 16, 32, 64, 512}) MeasureProduct(stream, type, activations, m, 1536, 576);
    MeasureProduct(stream, type, activations, 512, 2048, 2048);
  }
}

/// Measures the products of a step with 1 to 32 sequences. Multiplies by many weights, one after another, each as large
/// as a layer's; together they are too large for the caches. Uses all threads and wall-clock time. `steady`: the bytes
/// per second that these threads read from memory in long runs.
void MeasureSteps(NumberType type, Activations activations, double steady) {
  constexpr int64_t kRows = 8192, kColumns = 2048, kLeastBytes = int64_t{512} << 20;
  const CpuStream stream(static_cast<int>(std::thread::hardware_concurrency()));
  const int64_t bytes = PackedBytes(type, kRows, kColumns), count = kLeastBytes / bytes + 1;
  const std::vector<std::byte> data(static_cast<size_t>(bytes * count), std::byte{0x31});
  for (const int64_t m : {1, 2, 4, 8, 16, 32}) {
    const std::vector<float> x = Floats(m * kColumns);
    std::vector<float> y(static_cast<size_t>(m * kRows));
    const auto walk = [&] {
      for (int64_t i = 0; i < count; ++i) {
        const PackedWeight weight{type, data.data() + i * bytes, kRows, kColumns};
        Matmul(stream, {x.data(), kColumns, &weight, 1, y.data(), kRows, m, activations});
      }
    };
    std::vector<double> took;
    for (int i = 0; i < 9; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      walk();
      took.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(took);
    const double rate = static_cast<double>(bytes * count) / took[took.size() / 2];
    fmt::print("step of {:>2}, {:>5} by {}: {:>5.1f} GB/s, {:.2f} of what is read steadily\n", m, LayoutOf(type).name,
               activations == Activations::kInt8 ? "int8" : "int16", rate * 1e-9, rate / steady);
  }
}

/// Measures the attention of a step of one sequence with `context` tokens, layer by layer. The sequence's blocks lie in
/// random order in memory. `steady`: as in MeasureSteps.
void MeasureCollecting(NumberType type, Activations activations, int64_t heads, int64_t kv_heads, int64_t context,
                       double steady) {
  constexpr int64_t kBlockSize = 16, kDim = 64;
  const int64_t blocks = context / kBlockSize, half = kv_heads * KvHeadBytes(type, kDim, kBlockSize);
  const int64_t layers = (int64_t{256} << 20) / (2 * half * blocks) + 1;
  std::vector<std::byte> pool(static_cast<size_t>(blocks * layers * 2 * half));
  std::vector<int32_t> table(static_cast<size_t>(blocks)), head_start;
  for (int64_t b = 0; b < blocks; ++b) table[static_cast<size_t>(b)] = static_cast<int32_t>(b);
  std::shuffle(table.begin(), table.end(), std::minstd_rand(3));
  for (int64_t h = 0; h <= kv_heads; ++h) head_start.push_back(static_cast<int32_t>(heads / kv_heads * h));
  const CpuStream stream(static_cast<int>(std::thread::hardware_concurrency()));
  const std::vector<float> query = Floats(heads * kDim);
  std::vector<float> out(query.size());
  const int32_t start[] = {0, 1}, length[] = {static_cast<int32_t>(context)};
  std::vector<double> took;
  for (int i = 0; i < 9; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t layer = 0; layer < layers; ++layer) {
      std::byte* const keys = pool.data() + layer * 2 * half;
      const KvCacheView cache{keys, keys + half, layers * 2 * half, kv_heads, kDim, kBlockSize, type};
      PagedAttention(stream, {query.data(), heads * kDim, out.data(), heads * kDim, cache, table.data(), blocks, start,
                              length, head_start.data(), 1, heads, 0.125f, 0, 0, nullptr, activations});
    }
    took.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(took);
  const double rate = static_cast<double>(pool.size()) / took[took.size() / 2];
  fmt::print(
      "keys and values of {:>4} tokens in {:>5}, {:>2}/{} heads: {:>5.1f} GB/s, {:.2f} of what is read steadily\n",
      context, activations == Activations::kInt8 ? "bytes" : LayoutOf(type).name, heads, kv_heads, rate * 1e-9,
      rate / steady);
}

double MeasureSteady() {
  const CpuStream stream(static_cast<int>(std::thread::hardware_concurrency()));
  const double steady = MeasureCeilings(stream).steady_bytes;
  fmt::print("{} threads read {:.1f} GB/s steadily\n", stream.pool().num_threads(), steady * 1e-9);
  return steady;
}

void MeasureCollecting() {
  const double steady = MeasureSteady();
  for (const int64_t context : {512, 4096}) {
    for (const NumberType type : {NumberType::kF32, NumberType::kF16, NumberType::kInt8})
      MeasureCollecting(type, Activations::kInt16, 16, 4, context, steady);
    MeasureCollecting(NumberType::kInt8, Activations::kInt8, 16, 4, context, steady);
    for (const int64_t group : {1, 2, 3})
      MeasureCollecting(NumberType::kF16, Activations::kInt16, 4 * group, 4, context, steady);
  }
}

void MeasureSteps() {
  const double steady = MeasureSteady();
  for (const NumberType type : {NumberType::kQ4_0, NumberType::kQ4_1, NumberType::kQ8_0}) {
    for (const Activations activations : {Activations::kInt16, Activations::kInt8})
      MeasureSteps(type, activations, steady);
  }
  MeasureSteps(NumberType::kBF16, Activations::kInt16, steady);
}

void MeasureRounding() {
  constexpr int64_t kColumns = 1 << 14;  // fits into the second-level cache, like rows that were just computed
  const std::vector<float> x = Floats(kColumns);
  std::vector<int16_t> words(x.size());
  std::vector<int8_t> bytes(x.size());
  std::vector<float> scales(x.size() / kQuantBlock), lifts(scales.size()), sums(scales.size());
  std::vector<int32_t> begins(scales.size());
  const auto measure = [&](const char* name, const auto& quantize, auto& values) {
    const double seconds = Least(
        [&] {
          quantize(x.data(), {values.data(), scales.data(), lifts.data(), begins.data(), sums.data(), kColumns});
        },
        0.1);
    fmt::print("rounding to {}: {:.2f} G numbers a second\n", name, static_cast<double>(kColumns) / seconds * 1e-9);
  };
  measure("int16", ActiveTable().quantize_int16, words);
  measure("int8", ActiveTable().quantize_int8, bytes);
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
  if (wanted("collecting")) MeasureCollecting();
  if (wanted("steps")) MeasureSteps();
  return 0;
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) { return quire::kernels::Main(argc, argv); }
