#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/models/model_roster.h"
#include "coordinator/http/http_types.h"

namespace quire {

// The first three functions read the model that a request's query names (?model=NAME), and take the name out of the
// query. On a server of one model they leave the query as it is. They throw ApiError 404 for a name that nobody has,
// and 400 for a name that is malformed or given twice.

/// The named model, or the first one. It may be unloaded.
ServedModel& TakeAskedModel(ModelRoster& models, HttpRequest& request);
/// The named model, or the first one that is loaded, or the first one.
ServedModel& TakeReportedModel(ModelRoster& models, HttpRequest& request);
/// The named model alone, or all models.
std::vector<ServedModel*> TakeAskedModels(ModelRoster& models, HttpRequest& request);

/// The model that has this name, also as an alias or an adapter. Throws ApiError 404, which names `field`, when none
/// has.
ServedModel& ModelNamed(ModelRoster& models, const std::string& name, const char* field);

/// Holds the workers of a loaded model (ServedModel::Hold). Throws ApiError 409 for a model that is not loaded.
std::shared_ptr<ModelWorkers> HoldAsked(const ServedModel& model);

}  // namespace quire
