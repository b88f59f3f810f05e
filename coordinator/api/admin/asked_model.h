#pragma once

#include <vector>

#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/http_types.h"

namespace quire {

// Both functions read the model that a request's query names (?model=NAME), and take the name out of the query. On a
// server of one model they leave the query as it is. They throw ApiError 404 for a name that nobody has, and 400 for a
// name that is malformed or given twice.

/// The named model, or the first one.
ServedModel& TakeAskedModel(ModelRoster& models, HttpRequest& request);
/// The named model alone, or all models.
std::vector<ServedModel*> TakeAskedModels(ModelRoster& models, HttpRequest& request);

}  // namespace quire
