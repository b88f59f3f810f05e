#pragma once

namespace quire {

/// What of EngineOptions and BlockManagerOptions may change while requests run.
struct LiveOptions {
  bool prefix_caching = true;
  double max_wait_seconds = 60;
  double max_request_seconds = 600;
  double target_step_seconds = 0;  // that a step should take at the most while something is decoded; 0: no target
};

}  // namespace quire
