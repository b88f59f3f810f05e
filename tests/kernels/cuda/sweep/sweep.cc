#include "kernels/cuda/sweep/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>

namespace quire::kernels {

namespace {

constexpr int kMostFailures = 5;

int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoll(text, nullptr, 10);
}

}  // namespace

void Sweep(const std::string& kind, int64_t cases, const std::function<std::string(test::Random&, uint64_t)>& wrong) {
  const int64_t seconds = NumberFrom("QUIRE_SWEEP_SECONDS", 0);
  cases = NumberFrom("QUIRE_SWEEP_CASES", seconds > 0 ? std::numeric_limits<int32_t>::max() : cases);
  const auto first = static_cast<uint64_t>(NumberFrom("QUIRE_SWEEP_SEED", 1));
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> share(static_cast<double>(seconds) /
                                            testing::UnitTest::GetInstance()->test_to_run_count());
  int failures = 0;
  uint64_t seed = first;
  for (; seed < first + static_cast<uint64_t>(cases) && failures < kMostFailures; ++seed) {
    if (seconds > 0 && std::chrono::steady_clock::now() - begin > share) break;
    test::Random random(seed);
    std::string found;
    try {
      found = wrong(random, seed);
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (found.empty()) continue;
    ++failures;
    const char* suite = testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
    ADD_FAILURE() << kind << ": " << found << "\nagain: tests/kernels/cuda/sweep/run --seed " << seed
                  << " --cases 1 --kind " << suite;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: seeds %llu to %llu, %.1f s\n", kind.c_str(), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(seed - 1), took.count());
}

int32_t AnyLength(test::Random& random, int32_t low, int32_t high) {
  const double least = std::log(low + 1.0), most = std::log(high + 2.0);
  const double at = std::exp(least + (random.Signed() + 1.0) / 2 * (most - least)) - 1;
  return std::clamp(static_cast<int32_t>(at), low, high);
}

std::vector<int32_t> HeadsOfAShare(test::Random& random, int32_t most) {
  const int32_t group = OneOf(random, {1, 2, 3, 4, 4, 5, 6, 7, 8});
  const auto heads = static_cast<int32_t>(random.Between((most + 1) / 2, most));
  std::vector<int32_t> start{0};
  for (auto next = static_cast<int32_t>(random.Between(1, group)); next < heads; next += group) start.push_back(next);
  start.push_back(heads);
  return start;
}

NumberType AnyQuantized(test::Random& random) {
  return OneOf(random, {NumberType::kQ4_1, NumberType::kQ8_0, NumberType::kMxFp4, NumberType::kQ6_K, NumberType::kQ5_K,
                        NumberType::kFp8E4M3, NumberType::kFp8Groups});
}

}  // namespace quire::kernels
