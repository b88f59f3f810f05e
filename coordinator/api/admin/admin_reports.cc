#include "coordinator/api/admin/admin_reports.h"

#include <map>
#include <memory>
#include <utility>

#include "comm/wire/messages.h"
#include "coordinator/api/admin/adapter_pages.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/admin/batch_report.h"
#include "coordinator/api/admin/block_map.h"
#include "coordinator/api/admin/block_report.h"
#include "coordinator/api/admin/model_control.h"
#include "coordinator/api/admin/replica_report.h"
#include "coordinator/api/admin/settings_report.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/query_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kPageBytes = 64 << 10;
constexpr size_t kDefaultListed = 200, kMostListed = 1000;
constexpr std::string_view kRequestPath = "/admin/requests/";

RequestFilter FilterOf(const QueryFields& query) {
  RequestFilter filter;
  filter.state = query.Choice("state", {"waiting", "preempted", "swapped_out", "prompt", "generating"});
  filter.client = query.Text("client");
  filter.any_client = filter.client.empty();
  filter.name = query.Text("id");
  filter.limit = static_cast<size_t>(query.Integer("limit", 0, kMostListed).value_or(kDefaultListed));
  return filter;
}

std::string RequestsText(const std::vector<RequestsView>& replicas, size_t limit) {
  int running = 0, waiting = 0, matching = 0;
  Json list = Json::array();
  for (const RequestsView& replica : replicas) {
    running += replica.running;
    waiting += replica.waiting;
    matching += replica.matching;
    for (const RequestView& request : replica.requests) {
      if (list.size() < limit) list.push_back(RequestJson(request, false));
    }
  }
  return DumpJson({{"running", running},
                   {"waiting", waiting},
                   {"matching", matching},
                   {"not_listed", matching - static_cast<int>(list.size())},
                   {"requests", std::move(list)}});
}

/// Returns the ranks of all replicas, grouped by host.
Json NodesJson(const Json& replicas) {
  std::map<std::string, Json> by_host;
  for (const Json& replica : replicas) {
    for (const Json& rank : replica["ranks"]) {
      by_host[rank["host"].get<std::string>()].push_back(
          {{"replica", replica["replica"]}, {"rank", rank["rank"]}, {"pid", rank["pid"]}, {"health", rank["health"]}});
    }
  }
  Json nodes = Json::array();
  for (auto& [host, ranks] : by_host) nodes.push_back({{"host", host}, {"ranks", std::move(ranks)}});
  return nodes;
}

Json RequestMemoryJson(const ByteBudget& memory) {
  return {{"taken_bytes", memory.taken()},
          {"most_bytes", memory.limits().in_all},
          {"most_bytes_per_client", memory.limits().per_client},
          {"clients", memory.num_clients()}};
}

HttpResponse PageOf(const Json& json) {
  HttpResponse response;
  response.body = DumpJson(json);
  return response;
}

}  // namespace

AdminReports::AdminReports(const Server& server, ModelRoster& models, size_t model, WorkPool& pool)
    : server_(server), models_(models), model_(models.at(model)), pool_(pool), events_(model_.events()) {}

std::vector<AdminRoutes::Route> AdminReports::MakeRoutes() {
  const auto to = [this](auto method) -> AdminHandler {
    return [this, method](HttpRequest& request, HttpResponder& out) { return (this->*method)(request, out); };
  };
  const auto held = [this](auto method) -> AdminHandler {
    return [this, method](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<HttpResponse> {
      const auto workers = HoldAsked(model_);
      HttpResponse response = co_await (this->*method)(request, responder);
      co_return response;
    };
  };
  return {
      {"GET", "/admin/status", to(&AdminReports::StatusPage), "replicas, ranks, pools, clients, losses and settings"},
      {"GET", "/admin/blocks", held(&AdminReports::BlocksPage),
       "blocks in use and cached ones, one by one, with hashes and ages; ?replica="},
      {"GET", "/admin/requests", to(&AdminReports::RequestsPage),
       "what runs and waits, and why; ?state=, client=, id=, replica=, limit="},
      {"GET", "/admin/requests/*", to(&AdminReports::RequestPage),
       "one request by the id of its answer: state, choices, blocks, and what happened to it lately"},
      {"GET", "/admin/batches", to(&AdminReports::BatchesPage),
       "clients' batches: how far each is, and what it waits for; ?status=, client=, limit="},
      {"GET", "/admin/block_map", held(&AdminReports::BlockMapPage),
       "every block by owner, as runs of ids: what the dashboard draws; ?replica="},
      {"GET", "/admin/config", held(&AdminReports::ConfigPage),
       "the settings that are in force, and which of them PATCH can change"},
      {"GET", "/admin/topology", held(&AdminReports::TopologyPage), "nodes, replicas and ranks, and how they are"},
      {"GET", "/admin/events", to(&AdminReports::EventsPage),
       "server-sent events: losses, epochs, migrations, preemptions, pauses, requests; ?since=NUMBER"},
  };
}

/// Returns the settings in force of this model and of the server.
Topology AdminReports::SettingsOfModel() const {
  Topology settings = ModelTopology(server_.settings.topology(), model_.index());
  settings.model = model_.topology().model;
  return settings;
}

asio::awaitable<std::vector<RequestsView>> AdminReports::Collect(int replica, const RequestFilter& filter) {
  std::vector<RequestsView> views;
  const auto workers = model_.Hold();  // null: the model is not loaded, so no engine has requests
  for (int r = 0; workers != nullptr && r < replicas().size(); ++r) {
    if (replica >= 0 && replica != r) continue;
    std::function<RequestsView(Engine&)> take = [this, r, filter](Engine& engine) {
      const Replica& at = replicas().at(r);
      return TakeRequests(engine, r, {at.loop().paused(), at.recovering()}, filter, EngineLoop::Now());
    };
    RequestsView view = co_await OnEngine(replicas().at(r).loop(), std::move(take));
    views.push_back(std::move(view));
  }
  co_return views;
}

asio::awaitable<HttpResponse> AdminReports::Spell(HttpResponder& responder,
                                                  std::function<std::string(const std::stop_token&)> spell) {
  std::optional<std::string> text = co_await OnPool(pool_, responder, kPoolClient, kPageBytes, std::move(spell));
  HttpResponse response;
  response.body = std::move(text).value_or("");  // empty: the client is gone
  co_return response;
}

asio::awaitable<HttpResponse> AdminReports::RequestsPage(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"state", "client", "id", "replica", "limit"});
  const RequestFilter filter = FilterOf(query);
  const int most = model_.topology().parallel.replicas - 1;
  const int replica = static_cast<int>(query.Integer("replica", 0, most).value_or(-1));
  std::vector<RequestsView> views = co_await Collect(replica, filter);
  std::function<std::string(const std::stop_token&)> spell =
      [views = std::move(views), limit = filter.limit](const std::stop_token&) { return RequestsText(views, limit); };
  HttpResponse response = co_await Spell(responder, std::move(spell));
  co_return response;
}

/// Reports all requests with one id: a call with several prompts has several requests.
asio::awaitable<HttpResponse> AdminReports::RequestPage(HttpRequest& request, HttpResponder& responder) {
  const std::optional<std::string> name = PercentDecoded(std::string_view(request.path).substr(kRequestPath.size()));
  RequestFilter filter;
  filter.name = name.value_or("");
  filter.limit = kMostListed;
  filter.details = true;
  std::vector<RequestsView> views;
  if (!filter.name.empty()) views = co_await Collect(-1, filter);
  const std::vector<ServerEvent> events = model_.events().OfRequest(filter.name);
  size_t found = 0;
  for (const RequestsView& view : views) found += view.requests.size();
  if (filter.name.empty() || (found == 0 && events.empty()))
    throw ApiError(404, "no such request is here, and none of this id ended lately; ids are those of answers");
  std::function<std::string(const std::stop_token&)> spell = [views = std::move(views), events,
                                                              name = filter.name](const std::stop_token&) {
    Json list = Json::array(), story = Json::array();
    for (const RequestsView& view : views) {
      for (const RequestView& one : view.requests) list.push_back(RequestJson(one, true));
    }
    for (const ServerEvent& event : events) story.push_back(EventJson(event));
    const bool ended = list.empty();
    return DumpJson({{"id", name}, {"ended", ended}, {"requests", std::move(list)}, {"events", std::move(story)}});
  };
  HttpResponse response = co_await Spell(responder, std::move(spell));
  co_return response;
}

asio::awaitable<HttpResponse> AdminReports::BatchesPage(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"status", "client", "limit"});
  BatchFilter filter{.client = query.Text("client")};
  filter.limit = static_cast<size_t>(query.Integer("limit", 0, kMostListed).value_or(kDefaultListed));
  filter.status = query.Choice("status", {"validating", "failed", "in_progress", "finalizing", "completed", "expired",
                                          "cancelling", "cancelled"});
  BatchViews views = co_await server_.list_batches(std::move(filter));
  std::function<std::string(const std::stop_token&)> spell = [views = std::move(views)](const std::stop_token&) {
    return BatchListText(views);
  };
  HttpResponse response = co_await Spell(responder, std::move(spell));
  co_return response;
}

asio::awaitable<HttpResponse> AdminReports::BlockMapPage(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"replica"});
  const int replica = static_cast<int>(query.Integer("replica", 0, replicas().size() - 1).value_or(0));
  std::function<std::shared_ptr<BlockMap>(Engine&)> take = [replica](Engine& engine) {
    return std::make_shared<BlockMap>(TakeBlockMap(engine, replica));
  };
  std::shared_ptr<BlockMap> map = co_await OnEngine(replicas().at(replica).loop(), std::move(take));
  std::function<std::string(const std::stop_token&)> spell = [map = std::move(map)](const std::stop_token&) {
    return BlockMapText(*map);
  };
  HttpResponse response = co_await Spell(responder, std::move(spell));
  co_return response;
}

/// Adds the model's name and the parts of the status that concern the whole server.
void AdminReports::AddServer(Json& page) const {
  page["version"] = kBuildVersion;
  page["warnings"] = server_.warnings;
  page["request_memory"] = RequestMemoryJson(server_.request_memory);
  if (const std::optional<BatchNumbers> batches = server_.batches()) page["batches"] = BatchesJson(*batches);
  page["adapters"] = AdaptersJson(model_.adapters());
  page["model"].update({{"name", model_.name()}, {"path", model_.topology().model.path}});
  page["models"] = ModelsJson(models_, server_.keeper);
}

/// Shows the first replica's state at the top level, and all replicas under "replicas", if the model is loaded.
asio::awaitable<HttpResponse> AdminReports::StatusPage(HttpRequest&, HttpResponder&) {
  Json all = Json::array(), page;
  const auto workers = model_.Hold();
  for (int index = 0; workers != nullptr && index < replicas().size(); ++index) {
    const ReplicaSnapshot replica = co_await SnapshotOf(replicas().at(index));
    Json status = StatusJson(replica);
    if (index == 0) {
      page = status;
      page["model"]["max_model_len"] = replica.options.max_model_len;
      page["settings"] = SettingsJson(SettingsOfModel(), replica);
    }
    status["replica"] = index;
    all.push_back(std::move(status));
  }
  AddServer(page);
  page["replicas"] = std::move(all);
  if (workers == nullptr) {
    page["state"] = NameOf(model_.state());
    co_return PageOf(page);
  }
  const MigrationCounts moved = replicas().migrations().counts();
  page["migrations"] = {{"with_blocks", moved.with_blocks},
                        {"bare", moved.bare},
                        {"failed", moved.failed},
                        {"bytes", moved.bytes},
                        {"seconds", moved.seconds}};
  co_return PageOf(page);
}

asio::awaitable<HttpResponse> AdminReports::BlocksPage(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"replica"});
  const int replica = static_cast<int>(query.Integer("replica", 0, replicas().size() - 1).value_or(0));
  std::function<std::shared_ptr<BlockList>(Engine&)> take = [](Engine& engine) {
    return std::make_shared<BlockList>(TakeBlocks(engine));
  };
  std::shared_ptr<BlockList> blocks = co_await OnEngine(replicas().at(replica).loop(), std::move(take));
  std::function<std::string(const std::stop_token&)> spell = [blocks = std::move(blocks)](const std::stop_token&) {
    return BlocksText(*blocks);
  };
  HttpResponse response = co_await Spell(responder, std::move(spell));
  co_return response;
}

asio::awaitable<HttpResponse> AdminReports::ConfigPage(HttpRequest&, HttpResponder&) {
  const ReplicaSnapshot replica = co_await SnapshotOf(replicas().at(0));
  const Json settings = SettingsJson(SettingsOfModel(), replica);
  co_return PageOf({{"version", kBuildVersion}, {"settings", settings}, {"live", LiveSettings::Keys()}});
}

asio::awaitable<HttpResponse> AdminReports::TopologyPage(HttpRequest&, HttpResponder&) {
  Json list = Json::array();
  for (int r = 0; r < replicas().size(); ++r) {
    const ReplicaSnapshot replica = co_await SnapshotOf(replicas().at(r));
    list.push_back(TopologyJson(replica));
  }
  Json nodes = NodesJson(list);
  co_return PageOf({{"nodes", std::move(nodes)}, {"replicas", std::move(list)}});
}

asio::awaitable<HttpResponse> AdminReports::EventsPage(HttpRequest& request, HttpResponder& responder) {
  if (request.method == "HEAD") co_return HttpResponse{200, "text/event-stream; charset=utf-8", "", {}};
  const QueryFields query(request.query, {"since"});
  const auto newest = static_cast<int64_t>(model_.events().newest());
  const int64_t since = query.Integer("since", 0, INT64_MAX).value_or(newest);
  co_await events_.Serve(static_cast<uint64_t>(std::min(since, newest)), responder);
  co_return HttpResponse();
}

}  // namespace quire
