#include "kernels/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cpu/isa/table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::kernels {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTries = 5, kReadTries = 31;
constexpr size_t kReadBytes = size_t{128} << 20;  // number of bytes that each thread reads

/// Returns the rates of all threads together in units per second, one rate per try, in ascending order. work(thread)
/// does some work and returns its amount in units.
template <class Work>
std::vector<double> Rates(const CpuStream& stream, int tries, const Work& work) {
  const int threads = stream.pool().num_threads();
  std::vector<double> amounts(static_cast<size_t>(threads));
  std::vector<double> rates;
  for (int i = 0; i < tries; ++i) {
    const auto begin = Clock::now();
    stream.pool().ForRange(threads, 1, [&](int64_t thread, int64_t, int) {
      amounts[static_cast<size_t>(thread)] = work(static_cast<size_t>(thread));
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    double all = 0;
    for (const double amount : amounts) all += amount;
    rates.push_back(all / seconds);
  }
  std::ranges::sort(rates);
  return rates;
}

struct FreePages {
  void operator()(uint64_t* pages) const { std::free(pages); }
};
using PagesOfAThread = std::unique_ptr<uint64_t[], FreePages>;

/// Allocates kReadBytes in huge pages, which weights and KV blocks use, too. With small pages a thread would wait for
/// address translations.
PagesOfAThread MakePages() {
  constexpr size_t kPage = size_t{2} << 20;
  PagesOfAThread pages(static_cast<uint64_t*>(std::aligned_alloc(kPage, kReadBytes)));
  if (pages == nullptr) throw std::bad_alloc();
  ::madvise(pages.get(), kReadBytes, MADV_HUGEPAGE);  // a hint: pages stay small where the system has no huge pages
  std::fill_n(pages.get(), kReadBytes / sizeof(uint64_t), 1);
  return pages;
}

/// Reads with prefetches into the second-level cache, as products do, because hardware prefetchers stop at page
/// boundaries.
double ReadAll(const uint64_t* memory) {
  constexpr size_t kNumbers = kReadBytes / sizeof(uint64_t), kAhead = 16384 / sizeof(uint64_t);
  uint64_t sums[8] = {};
  for (size_t i = 0; i < kNumbers; i += 8) {
    __builtin_prefetch(memory + std::min(i + kAhead, kNumbers - 1), 0, 2);
    for (size_t j = 0; j < 8; ++j) sums[j] += memory[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  __asm__ volatile("" : : "r"(sum));  // keeps the compiler from removing the loop
  return static_cast<double>(kReadBytes);
}

}  // namespace

Ceilings MeasureCeilings(const CpuStream& stream) {
  std::vector<PagesOfAThread> memory(static_cast<size_t>(stream.pool().num_threads()));
  // The thread that reads the memory writes it first, so that both are on one NUMA node.
  stream.pool().ForRange(static_cast<int64_t>(memory.size()), 1,
                         [&](int64_t thread, int64_t, int) { memory[static_cast<size_t>(thread)] = MakePages(); });
  const auto peak = [&](Arithmetic arithmetic) {
    constexpr int64_t kRounds = 4'000'000;
    return Rates(stream, kTries, [&](size_t) { return ActiveTable().run_peak(arithmetic, kRounds); }).back();
  };
  const std::vector<double> reads =
      Rates(stream, kReadTries, [&](size_t thread) { return ReadAll(memory[thread].get()); });
  return {reads.back(), reads[kReadTries / 2], peak(Arithmetic::kMultiplyAdd), peak(Arithmetic::kInt16),
          peak(Arithmetic::kInt8)};
}

}  // namespace quire::kernels
