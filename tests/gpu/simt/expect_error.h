#pragma once

#include <gtest/gtest.h>

#include <string>

#include "simt/executor.h"

namespace quire::simt {

/// Only the emulator stops a launch that does wrong; on a device it would take the process along. So the launch is not
/// made, and the test says that it was skipped there.
template <class Body>
std::string ExpectError(Body, const std::string&) {
  [] { GTEST_SKIP() << "only the emulator stops a wrong access"; }();
  return "";
}

/// The order of threads is the device's own.
class WithOptions {
 public:
  explicit WithOptions(Options) {}
  ~WithOptions() = default;
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;
};

}  // namespace quire::simt
