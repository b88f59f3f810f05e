#pragma once

#include "coordinator/core/request.h"

namespace quire::test {

/// Ignores all events, for tests that measure or count.
class SilentSink : public RequestSink {
 public:
  bool OnToken(const TokenEvent&) override { return false; }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string&) override {}
};

}  // namespace quire::test
