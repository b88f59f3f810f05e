// The one-shot all-reduce with bugs planted by one_shot_bugs.py: the schedules, the emulator or the comparison
// must find each of them.
#include <gtest/gtest.h>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/one_shot_case.h"
#include "planted_bugs.h"

namespace quire::kernels {
namespace {

/// What the first wrong case shows; empty if all is well.
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

TEST(OneShotBugsTest, EveryOneIsFoundAndWithoutThemAllIsWell) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

}  // namespace
}  // namespace quire::kernels
