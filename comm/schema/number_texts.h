#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/schema/text_automaton.h"

namespace quire {

/// One end of a range of numbers.
struct NumberBound {
  std::string number;  // as JSON writes it; its value is exact, whatever its length
  bool upper = false;
  bool excluded = false;
};

/// Whether numbers within the bound can be told by their digits. They cannot above a minimum from 1e100 on, nor below a
/// maximum from -1e100 on. A maximum from 1e100 on is written as 1e40, a minimum from -1e100 on as -1e40, which take
/// less work; a bound closer to 0 than 1e-100 as the next narrower one, 0 or 1e-100.
bool CanBeWritten(const NumberBound& bound);

/// Largest number whose multiples are known by their digits.
inline constexpr int64_t kMostDivisor = 1000;

/// The texts of JSON's integers within all bounds that are multiples of `divisor`, which is 1 to kMostDivisor.
TextAutomaton IntegerTexts(const std::vector<NumberBound>& bounds, int64_t divisor = 1);

/// The texts of JSON's numbers within all bounds: with as many decimals as one likes, and with exponents of up to two
/// digits behind one or two digits or behind 0.d (1.5e-7, 12e3, 0.5E2). Without bounds there are more.
TextAutomaton NumberTexts(const std::vector<NumberBound>& bounds);

}  // namespace quire
