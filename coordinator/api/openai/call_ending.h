#pragma once

#include <string>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/core/request_sink.h"

namespace quire {

/// The event of a request that ended without a result. A retry makes sense only when nothing was computed, or when the
/// request was not the cause.
CallEvent EndingOf(RequestError error, const std::string& message);

}  // namespace quire
