#pragma once

namespace quire {

/// What of EngineOptions and BlockManagerOptions may change while requests run.
struct LiveOptions {
  bool prefix_caching = true;
  double max_wait_seconds = 60;
  double max_request_seconds = 600;
};

}  // namespace quire
