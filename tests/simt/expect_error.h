#pragma once

#include <gtest/gtest.h>

#include <string>

#include "simt/executor.h"

namespace quire::simt {

/// Runs the launch, expects that an error whose text contains `text` stops it, and returns the whole text.
template <class Body>
std::string ExpectError(Body body, const std::string& text) {
  try {
    body();
  } catch (const SimtError& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error; expected: " << text;
  return "";
}

/// Sets options until the end of a test.
class WithOptions {
 public:
  explicit WithOptions(Options options) : before_(CurrentOptions()) { CurrentOptions() = options; }
  ~WithOptions() { CurrentOptions() = before_; }
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;

 private:
  Options before_;
};

}  // namespace quire::simt
