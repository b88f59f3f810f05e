#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <span>
#include <string>

#include "simt/active_bug.h"

namespace quire::kernels {

/// Switches on every planted bug, one after another, and expects that hunt() finds it. hunt() describes the first wrong
/// launch, and must return an empty text while no bug is switched on.
template <class Hunt>
void ExpectEveryBugIsFound(std::span<const char* const> planted_bugs, Hunt hunt) {
  simt::ActiveBug() = 0;
  EXPECT_EQ(hunt(), "");
  for (const char* bug : planted_bugs) {
    ++simt::ActiveBug();
    const std::string found = hunt();
    EXPECT_NE(found, "") << "missed: " << bug;
    std::printf("%s\n    %s\n", bug, found.c_str());
  }
  simt::ActiveBug() = 0;
  EXPECT_EQ(hunt(), "");
}

}  // namespace quire::kernels
