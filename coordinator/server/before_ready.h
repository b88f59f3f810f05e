#pragma once

#include "coordinator/http/http_types.h"

namespace quire {

/// Returns status 503 with Retry-After, for the time before the workers are ready.
HttpResponse NotReady();

/// Returns the data port's answer before the workers are ready, without reading a body: status 200 for /health and
/// /ping, which tell only whether this process lives; otherwise NotReady().
HttpResponse AnswerBeforeReady(const HttpRequest& request);

}  // namespace quire
