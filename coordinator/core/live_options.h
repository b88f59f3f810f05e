#pragma once

namespace quire {

/// The part of EngineOptions and BlockManagerOptions that may change while requests run.
struct LiveOptions {
  bool prefix_caching = true;
  double max_wait_seconds = 60;
  double max_request_seconds = 600;
  double target_step_seconds = 0;  // longest step wanted while sequences decode; 0: no target
};

}  // namespace quire
