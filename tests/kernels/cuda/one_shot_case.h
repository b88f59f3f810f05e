#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/one_shot_ranks.h"

namespace quire::kernels {

/// A series of operations of a group of ranks.
struct OneShotCase {
  NumberType dtype = NumberType::kF32;
  int ranks = 2;
  std::vector<int64_t> counts;  // per operation: elements, or rows of `hidden` when that is given
  int64_t hidden = 0;           // nonzero: sum, residual and RMSNorm in one operation; zero: the sum only
  Schedule schedule = {};
  uint32_t first_operation = 0;
  bool in_place = false;
};

/// Runs the case. Describes the first wrong rank; empty if there is none. The expected result is, bit for bit, the fp32
/// sum in rank order, rounded once, and RmsNorm of this sum.
std::string RunOneShot(const OneShotCase& c);

}  // namespace quire::kernels
