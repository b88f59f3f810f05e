#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "comm/base/number_type.h"
#include "tests/support/random.h"

// Compares kernels with their references in random cases. Every test run tries a few cases; sweep/run tries more.
// QUIRE_SWEEP_SEED is the first seed. QUIRE_SWEEP_CASES is the number of cases of each kind. QUIRE_SWEEP_SECONDS is the
// time for all kinds that run, which share the time equally.
namespace quire::kernels {

/// Runs `cases` cases with seeds from 1 on, unless the environment gives other numbers. `wrong(random, seed)` makes a
/// case from random numbers and returns a description of its error, or an empty text. An exception counts as wrong,
/// too. Every wrong case is a failure that says how to run the case again. The sweep ends after five wrong cases.
void Sweep(const std::string& kind, int64_t cases, const std::function<std::string(test::Random&, uint64_t)>& wrong);

template <class T>
T OneOf(test::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(static_cast<int64_t>(values.size()))];
}

/// Returns a length in [low, high], low >= 0. Every magnitude is equally likely: 10 to 20 as likely as 100 to 200.
int32_t AnyLength(test::Random& random, int32_t low, int32_t high);

/// Returns the heads of one of several ranks that share a model unevenly, at most `most`. KV head g of the rank serves
/// its query heads [result[g], result[g + 1]). The first and the last group may be parts of whole groups.
std::vector<int32_t> HeadsOfAShare(test::Random& random, int32_t most);

/// Returns one of the types of quantised weights that the device can hold.
NumberType AnyQuantized(test::Random& random);

}  // namespace quire::kernels
