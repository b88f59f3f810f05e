#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/schema/text_automaton.h"

namespace quire {

/// One end of a range of numbers.
struct NumberBound {
  std::string number;  // the bound's exact value as JSON text, of any length
  bool upper = false;
  bool excluded = false;
};

/// True when an automaton over digits can check the bound. A lower bound of 1e100 or more, and an upper bound of -1e100
/// or less, cannot be checked. An upper bound of 1e100 or more is narrowed to 1e40 and a lower bound of -1e100 or less
/// to -1e40, because these bounds cost less work. A bound closer to 0 than 1e-100 is narrowed to 0 or to 1e-100.
bool CanBeWritten(const NumberBound& bound);

/// The largest divisor whose multiples an automaton over digits recognises.
inline constexpr int64_t kMostDivisor = 1000;

/// Returns the texts of JSON integers that are within all bounds and are multiples of `divisor`, 1 to kMostDivisor.
TextAutomaton IntegerTexts(const std::vector<NumberBound>& bounds, int64_t divisor = 1);

/// Returns the texts of JSON numbers within all bounds. A number may have any number of decimals, or an exponent of up
/// to two digits after one or two digits or after 0.d (1.5e-7, 12e3, 0.5E2). Without bounds any JSON number is
/// included.
TextAutomaton NumberTexts(const std::vector<NumberBound>& bounds);

}  // namespace quire
