#include "coordinator/api/admin/asked_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/api/requests/query_fields.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

/// Removes the model's name from the request's query and returns the name; "" when the query has none.
std::string TakeName(HttpRequest& request) {
  constexpr std::string_view kModel = "model=";
  std::string others, asked;
  const std::string_view query = request.query;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view field = query.substr(begin, end - begin);
    std::string& to = field.starts_with(kModel) ? asked : others;
    if (!to.empty()) to += '&';
    to += field;
    begin = end + 1;
  }
  std::string name = QueryFields(asked, {"model"}).Text("model");
  request.query = std::move(others);
  return name;
}

}  // namespace

ServedModel& ModelNamed(ModelRoster& models, const std::string& name, const char* field) {
  if (ServedModel* const model = models.Find(name)) return *model;
  throw ApiError(404, "the model \"" + name.substr(0, 100) + "\" is not served here; GET /v1/models lists what is",
                 field);
}

ServedModel& TakeAskedModel(ModelRoster& models, HttpRequest& request) {
  return models.size() == 1 ? models.first() : ModelNamed(models, TakeName(request), "model");
}

ServedModel& TakeReportedModel(ModelRoster& models, HttpRequest& request) {
  const std::string name = models.size() == 1 ? "" : TakeName(request);
  if (!name.empty()) return ModelNamed(models, name, "model");
  for (size_t i = 0; i < models.size(); ++i) {
    if (models.at(i).phase() == LifePhase::kLoaded) return models.at(i);
  }
  return models.first();
}

std::vector<ServedModel*> TakeAskedModels(ModelRoster& models, HttpRequest& request) {
  const std::string name = models.size() == 1 ? "" : TakeName(request);
  if (!name.empty()) return {&ModelNamed(models, name, "model")};
  std::vector<ServedModel*> all;
  for (size_t i = 0; i < models.size(); ++i) all.push_back(&models.at(i));
  return all;
}

std::shared_ptr<ModelWorkers> HoldAsked(const ServedModel& model) {
  if (auto workers = model.Hold()) return workers;
  throw ApiError(409,
                 fmt::format("the model \"{}\" is {}; POST /admin/models/{}/load, or a request, loads it", model.name(),
                             NameOf(model.state()), model.name()),
                 "model");
}

}  // namespace quire
