#pragma once

#include "coordinator/core/request.h"

namespace quire::test {

/// Ignores all events. For measuring and counting.
class SilentSink : public RequestSink {
 public:
  bool OnToken(const TokenEvent&) override { return false; }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string&) override {}
};

}  // namespace quire::test
