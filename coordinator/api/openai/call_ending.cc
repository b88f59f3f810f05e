#include "coordinator/api/openai/call_ending.h"

namespace quire {

CallEvent EndingOf(RequestError error, const std::string& message) {
  CallEvent event{.error = message};
  if (error == RequestError::kNoNumbers) event.error += " (--exact, --dtype, --kv-cache-dtype)";
  event.retry_in_vain = error != RequestError::kNoRoom && error != RequestError::kWorkersLost;
  switch (error) {
    case RequestError::kNoRoom:
      event.error_status = 503;
      break;
    case RequestError::kTimedOut:
    case RequestError::kDeadline:
      event.error_status = 504;
      break;
    case RequestError::kOverworked:
    case RequestError::kDeadEnd:
      event.error_status = 400;
      break;
    case RequestError::kAborted:
      event.error_status = 410;
      break;
    case RequestError::kWorkersLost:
    case RequestError::kNoNumbers:
    case RequestError::kGivenUp:
      event.error_status = 500;
      break;
  }
  return event;
}

CallEvent RefusalOf(int status, const std::string& reason) {
  CallEvent event;
  event.error = reason, event.error_status = status;
  return event;
}

}  // namespace quire
