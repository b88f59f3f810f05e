#pragma once

#include <boost/asio/awaitable.hpp>

#include "coordinator/api/models/model_keeper.h"
#include "coordinator/http/http_types.h"

namespace quire {

// Operators' orders about one model. Each function returns when the model is in the ordered state, and throws ApiError
// when that state cannot be reached. The functions run on the I/O thread. UnloadModel and SleepModel wait until the
// model's requests have ended; `force` ends these requests without waiting.

boost::asio::awaitable<void> LoadModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder);
boost::asio::awaitable<void> UnloadModel(ModelKeeper& keeper, ServedModel& model, bool force);
/// Throws ApiError 409 for a model without workers, and 400 for a model on GPUs.
boost::asio::awaitable<void> SleepModel(ModelKeeper& keeper, ServedModel& model, bool force);
/// Throws ApiError 409 for a model without workers.
boost::asio::awaitable<void> WakeModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder);

}  // namespace quire
