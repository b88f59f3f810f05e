#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/http_types.h"

namespace quire {

// The first three functions read the model that a request's query names (?model=NAME), and remove the name from the
// query. On a server of one model the functions leave the query as it is. The functions throw ApiError 404 for an
// unknown name, and 400 for a name that is malformed or given twice.

/// Returns the named model, or the first model of the server. The returned model may be unloaded.
ServedModel& TakeAskedModel(ModelRoster& models, HttpRequest& request);
/// Returns the named model. Without a name: the first model that is loaded; while none is loaded, the first model.
ServedModel& TakeReportedModel(ModelRoster& models, HttpRequest& request);
/// Returns the named model only, or all models when the query has no name.
std::vector<ServedModel*> TakeAskedModels(ModelRoster& models, HttpRequest& request);

/// Returns the model with this name, alias or adapter. Throws ApiError 404, which names `field`, when there is none.
ServedModel& ModelNamed(ModelRoster& models, const std::string& name, const char* field);

/// Holds the workers of a loaded model (ServedModel::Hold). Throws ApiError 409 for a model that is not loaded.
std::shared_ptr<ModelWorkers> HoldAsked(const ServedModel& model);

}  // namespace quire
