#pragma once

#include <gtest/gtest.h>

#include <string>

#include "simt/executor.h"

namespace quire::simt {

/// Skips the test. Only the emulator stops a launch with a wrong access; on a device such a launch would end the
/// process.
template <class Body>
std::string ExpectError(Body, const std::string&) {
  [] { GTEST_SKIP() << "only the emulator stops a wrong access"; }();
  return "";
}

/// Options of the emulator, such as the order of threads, do not apply to a device.
class WithOptions {
 public:
  explicit WithOptions(Options) {}
  ~WithOptions() = default;
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;
};

}  // namespace quire::simt
