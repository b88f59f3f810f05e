#pragma once

#include <vector>

#include "coordinator/cluster/launch/deployment.h"

namespace quire {

/// Times of requests that were submitted together.
struct BatchTimes {
  double seconds = 0;                       // time until the last token
  std::vector<std::vector<double>> tokens;  // seconds until each token of each request
  double planning = 0;                      // seconds that the scheduler took
};

/// Submits `count` random prompts of input_len tokens, greedy and without stop tokens, and runs the engine until all
/// have output_len tokens. The requests' ids count up from first_id. The id seeds the prompt's tokens, so prompts of
/// different ids differ.
BatchTimes RunBatch(Deployment& deployment, RequestId first_id, int count, int input_len, int output_len,
                    int64_t vocab_size);

}  // namespace quire
