#pragma once

#include "coordinator/api/http/http_types.h"

namespace quire {

/// 503 with Retry-After: the workers are not ready yet.
HttpResponse NotReady();

/// What the data port answers until then, without a look at a body: 200 to /health and /ping, which ask whether this
/// process lives.
HttpResponse AnswerBeforeReady(const HttpRequest& request);

}  // namespace quire
