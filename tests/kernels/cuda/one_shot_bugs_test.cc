// Runs the one-shot all-reduce with the bugs of one_shot_bugs.py. The tested schedules, the emulator's checks or the
// comparison with the reference must find each bug.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/one_shot_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

/// Describes the error of the first wrong case; empty if there is none.
std::string Hunt() {
  std::vector<OneShotCase> cases;
  for (const auto hold : {Schedule::Hold::kBeforeSending, Schedule::Hold::kBeforeWaiting}) {
    for (const uint32_t first : {0u, 0xfffffffdu}) {
      cases.push_back({.ranks = 3, .counts = {900, 3, 902, 77, 900}, .schedule = {hold, 1}, .first_operation = first});
    }
  }
  cases.push_back({.ranks = 3, .counts = {33, 1}, .hidden = 48});
  for (const OneShotCase& c : cases) {
    try {
      if (const std::string wrong = RunOneShot(c); !wrong.empty()) return wrong;
    } catch (const simt::SimtError& error) {
      return error.what();
    }
  }
  return "";
}

TEST(OneShotBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

TEST(OneShotBugsTest, FlagsSetBeforeTheirData_AreDetected_WithEverySeed) {
  const auto* const bug =
      std::ranges::find(kPlantedBugs, std::string_view("flags are set before the whole block has sent"));
  ASSERT_NE(bug, std::end(kPlantedBugs));
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const simt::WithOptions options({.seed = seed});
    const OneShotCase c{.ranks = 2, .counts = {2000}};
    simt::ActiveBug() = static_cast<int>(bug - kPlantedBugs) + 1;
    EXPECT_NE(RunOneShot(c), "") << "seed " << seed;
    simt::ActiveBug() = 0;
    EXPECT_EQ(RunOneShot(c), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire::kernels
