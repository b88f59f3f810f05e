#pragma once

#include <boost/asio/awaitable.hpp>

#include "coordinator/api/models/model_keeper.h"
#include "coordinator/http/http_types.h"

namespace quire {

// An operator's orders about one model. Each function returns when the model is in the state that the order asks for.
// All throw ApiError when that cannot be. They run on the I/O thread. `force` ends the model's requests.

boost::asio::awaitable<void> LoadModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder);
boost::asio::awaitable<void> UnloadModel(ModelKeeper& keeper, ServedModel& model, bool force);
/// 409 for a model without workers, 400 for one on GPUs.
boost::asio::awaitable<void> SleepModel(ModelKeeper& keeper, ServedModel& model, bool force);
/// 409 for a model without workers.
boost::asio::awaitable<void> WakeModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder);

}  // namespace quire
