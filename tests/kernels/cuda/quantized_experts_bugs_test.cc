// Plants bugs in the products of experts with quantised weights with quantized_experts_bugs.py. The emulator or the
// comparison with the reference must find each of them.
#include <gtest/gtest.h>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/experts_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  const ExpertsShape shapes[] = {
      {4, 2, 3, 32, 96, true, true}, {3, 2, 20, 48, 64, true, false}, {2, 3, 50, 16, 160, false, true}};
  uint64_t seed = 1;
  for (const NumberType type : {NumberType::kQ4_1, NumberType::kMxFp4, NumberType::kQ5_K}) {
    for (const ExpertsShape& shape : shapes) {
      simt::WithOptions options({.seed = ++seed});
      try {
        if (std::string wrong = WrongInQuantizedExperts(NumberType::kF16, type, shape); !wrong.empty()) return wrong;
      } catch (const simt::SimtError& error) {
        return error.what();
      }
    }
  }
  return "";
}

TEST(QuantizedExpertsBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) {
  ExpectEveryBugIsFound(kPlantedBugs, Hunt);
}

}  // namespace
}  // namespace quire::kernels
