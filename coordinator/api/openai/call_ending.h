#pragma once

#include <string>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/core/request_sink.h"

namespace quire {

/// Returns the event of a request that ended without a result. The event advises against a retry, except
/// after kNoRoom and kWorkersLost.
CallEvent EndingOf(RequestError error, const std::string& message);

/// Returns the event of a call that was refused, with its HTTP status.
CallEvent RefusalOf(int status, const std::string& reason);

}  // namespace quire
