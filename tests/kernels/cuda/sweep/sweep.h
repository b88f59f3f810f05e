#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "comm/base/number_type.h"
#include "tests/support/random.h"

// Random cases of the kernels against their references: a few in every run of the tests, as many as one likes by
// QUIRE_SWEEP_CASES=100000 (of every kind) from QUIRE_SWEEP_SEED on.
namespace quire::kernels {

/// Runs `cases` cases, or $QUIRE_SWEEP_CASES, with seeds from $QUIRE_SWEEP_SEED or 1 on. wrong(random, seed) makes a
/// case of random numbers of its own and says what is wrong with it, nothing if nothing is; what it throws is wrong,
/// too.
void Sweep(const std::string& kind, int64_t cases, const std::function<std::string(test::Random&, uint64_t)>& wrong);

template <class T>
T OneOf(test::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(static_cast<int64_t>(values.size()))];
}

/// In [low, high], low >= 0, where 10 to 20 is as likely as 100 to 200.
int32_t AnyLength(test::Random& random, int32_t low, int32_t high);

/// Heads of one of several ranks that share a model unevenly, at most so many: kv head g of the rank serves its query
/// heads [result[g], result[g + 1]). The first and the last group may be parts of whole ones.
std::vector<int32_t> HeadsOfAShare(test::Random& random, int32_t most);

/// All that weights may be quantised as on the device.
NumberType AnyQuantized(test::Random& random);

}  // namespace quire::kernels
