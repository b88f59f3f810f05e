#include "coordinator/api/admin/adapter_pages.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr const char *kLoadPath = "/v1/load_lora_adapter", *kUnloadPath = "/v1/unload_lora_adapter";
constexpr size_t kLongestName = 256, kLongestPath = 4096, kLargeJob = 1 << 20;

void RefuseOtherFields(const Json& body, std::initializer_list<std::string_view> known) {
  for (const auto& [field, value] : body.items()) {
    if (std::ranges::find(known, field) == known.end() && !value.is_null())
      JsonFields::Refuse(field.substr(0, 100).c_str(), "is not known here");
  }
}

/// Returns the text of a required field. Throws ApiError when the text is missing or empty, has more than `most` bytes,
/// or contains control characters.
std::string Needed(const JsonFields& fields, const char* field, size_t most) {
  const std::string text = fields.Text(field).value_or("");
  if (text.empty()) JsonFields::Refuse(field, "is missing");
  const bool has_controls = std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  if (text.size() > most || has_controls)
    JsonFields::Refuse(field, fmt::format("must have at most {} bytes and no control characters", most));
  return text;
}

HttpResponse Told(std::string text) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

DataHandler Sent(AdminHandler handler) {
  return [handler = std::move(handler)](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    HttpResponse response = co_await handler(request, responder);
    co_await responder.Send(std::move(response));
  };
}

/// Marks a name as being loaded while an object of this class lives. The constructor throws ApiError when the name is
/// being loaded already.
class Coming {
 public:
  Coming(std::set<std::string>& names, const std::string& name) : names_(names), name_(name) {
    if (!names_.insert(name).second)
      throw ApiError(409, fmt::format("the adapter \"{}\" is being loaded already", name), "lora_name");
  }
  ~Coming() { names_.erase(name_); }
  Coming(const Coming&) = delete;
  Coming& operator=(const Coming&) = delete;

 private:
  std::set<std::string>& names_;
  const std::string name_;
};

}  // namespace

Json AdaptersJson(const AdapterShelf& shelf) {
  Json loaded = Json::array();
  for (const auto& adapter : shelf.Later()) {
    loaded.push_back({{"name", adapter->name},
                      {"path", adapter->path},
                      {"contents", adapter->contents},
                      {"rank", adapter->rank},
                      {"bytes", adapter->bytes}});
  }
  return {{"loaded", std::move(loaded)}, {"used_bytes", shelf.used_bytes()}};
}

std::set<std::string> AdapterPages::Paths() { return {kLoadPath, kUnloadPath}; }

std::vector<AdminRoutes::Route> AdapterPages::RoutesOfAdminPort() {
  return {
      {"POST", kLoadPath, [this](HttpRequest& request, HttpResponder& responder) { return Load(request, responder); },
       "loads a LoRA adapter from a directory of --lora-dir, as vLLM does"},
      {"POST", kUnloadPath,
       [this](HttpRequest& request, HttpResponder&) -> asio::awaitable<HttpResponse> { co_return Unload(request); },
       "unloads such an adapter; requests that run keep it"}};
}

std::vector<Routes<DataHandler>::Route> AdapterPages::RoutesOfDataPort() {
  std::vector<Routes<DataHandler>::Route> routes;
  for (AdminRoutes::Route& route : RoutesOfAdminPort())
    routes.push_back({route.method, route.path, Sent(std::move(route.handler))});
  return routes;
}

asio::awaitable<HttpResponse> AdapterPages::Load(HttpRequest& request, HttpResponder& responder) {
  const Json body = ParseJson(request.body, "body");
  const JsonFields fields(body);
  RefuseOtherFields(body, {"lora_name", "lora_path", "load_inplace", "base_model_name"});
  const std::string name = Needed(fields, "lora_name", kLongestName);
  const std::string path = Needed(fields, "lora_path", kLongestPath);
  const bool in_place = fields.Flag("load_inplace", false);
  ServedModel& model = ModelNamed(models_, fields.Text("base_model_name").value_or(""), "base_model_name");
  AdapterShelf& shelf = model.adapters();
  const auto workers = HoldAsked(model);  // holds the workers until they have answered
  ServedModel* const owner = models_.Find(name);
  if (owner != nullptr && (owner != &model || shelf.Find(name) == nullptr))
    throw ApiError(400, fmt::format("\"{}\" is the name of a model or of another model's adapter", name), "lora_name");
  const Coming coming(coming_, name);
  std::function<FoundAdapter(const std::stop_token&)> open = [&shelf, path](const std::stop_token&) {
    try {
      return shelf.Open(path);
    } catch (const Error& error) {
      throw ApiError(400, error.what(), "lora_path");
    }
  };
  const std::optional<FoundAdapter> found = co_await OnPool(pool_, responder, kPoolClient, kLargeJob, std::move(open));
  if (!found) co_return HttpResponse();  // the client left
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<std::string>>(io);
  shelf.Load(name, *found, in_place, [handoff](const std::string& problem) { handoff->Deliver(problem); });
  const std::string problem = co_await handoff->Take();
  if (!problem.empty())
    throw ApiError(400, fmt::format("the workers cannot load the adapter: {}", problem), "lora_path");
  spdlog::info("adapter {} of {} is loaded: {}, rank {}", name, model.name(), found->path, found->rank);
  co_return Told(fmt::format("Success: LoRA adapter '{}' added successfully.", name));
}

HttpResponse AdapterPages::Unload(const HttpRequest& request) {
  const Json body = ParseJson(request.body, "body");
  const JsonFields fields(body);
  RefuseOtherFields(body, {"lora_name", "lora_int_id"});  // vLLM's clients may send the number, which decides nothing
  const std::string name = Needed(fields, "lora_name", kLongestName);
  ServedModel* const owner = models_.Find(name);
  ServedModel& model = owner != nullptr ? *owner : models_.first();
  model.adapters().Unload(name);  // refuses other names
  spdlog::info("adapter {} of {} is unloaded; requests that run keep it", name, model.name());
  return Told(fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

}  // namespace quire
