// Runs the one-shot all-reduce with the bugs of one_shot_bugs.py. The schedules, the emulator or the comparison must
// find each.
#include <gtest/gtest.h>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/one_shot_case.h"
#include "planted_bugs.h"

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

}  // namespace
}  // namespace quire::kernels
