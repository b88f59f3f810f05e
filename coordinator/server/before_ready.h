#pragma once

#include "coordinator/http/http_types.h"

namespace quire {

/// Returns 503 with Retry-After, because the workers are not ready yet.
HttpResponse NotReady();

/// Returns the data port's answer before the workers are ready, without reading a body: 200 for /health and /ping,
/// which only ask whether this process lives; otherwise NotReady().
HttpResponse AnswerBeforeReady(const HttpRequest& request);

}  // namespace quire
