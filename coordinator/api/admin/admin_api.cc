#include "coordinator/api/admin/admin_api.h"

#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/wire/messages.h"
#include "coordinator/api/access/client_id.h"
#include "coordinator/api/admin/block_report.h"
#include "coordinator/api/admin/pin_order.h"
#include "coordinator/api/admin/replica_report.h"
#include "coordinator/api/admin/settings_report.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/query_fields.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

Json RequestMemoryJson(const ByteBudget& memory) {
  return {{"taken_bytes", memory.taken()},
          {"most_bytes", memory.limits().in_all},
          {"most_bytes_per_client", memory.limits().per_client},
          {"clients", memory.num_clients()}};
}

constexpr const char* kPoolClient = "(admin)";  // no API key has such a name
constexpr size_t kPageBytes = 64 << 10;
constexpr size_t kLongestOrder = 4 << 10;  // bodies of everything but pins

}  // namespace

AdminApi::AdminApi(Options options, Replicas& replicas, MetricsPage& metrics, const Tokenizer& tokenizer,
                   AdminControl& control, WorkPool& pool)
    : options_(std::move(options)),
      replicas_(replicas),
      metrics_(metrics),
      tokenizer_(tokenizer),
      control_(control),
      pool_(pool),
      reports_(options_.topology, replicas, pool),
      routes_(MakeRoutes()) {}

Routes<AdminApi::Handler> AdminApi::MakeRoutes() {
  const auto page = [](HttpRequest& request, HttpResponder&) { return DashboardFile(request.path); };
  const Handler flush = [this](HttpRequest&, HttpResponder&) { return FlushCaches(); };
  std::vector<Routes<Handler>::Route> routes = {
      {"GET", "/", page, "the dashboard"},
      {"GET", kWebFiles, page},
      {"GET", "/admin/help", [this](HttpRequest&, HttpResponder&) { return HelpPage(); }, "this list"},
      {"GET", "/admin/status", [this](HttpRequest&, HttpResponder&) { return StatusPage(); },
       "replicas, ranks, pools, clients, losses and settings"},
      {"GET", "/admin/blocks",
       [this](HttpRequest& request, HttpResponder& responder) { return BlocksPage(ReplicaOf(request), responder); },
       "blocks in use and cached ones, one by one, with hashes and ages; ?replica="},
      {"GET", "/metrics", [this](HttpRequest&, HttpResponder&) { return metrics_.Now(); }, "for Prometheus"},
      {"POST", "/admin/flush_cache", flush, "forgets all cached blocks and pins"},
      {"POST", "/reset_prefix_cache", flush, "the same, as vLLM names it"},
      {"POST", "/admin/pin", [this](HttpRequest& request, HttpResponder& responder) { return Pin(request, responder); },
       "keeps a prompt's cached blocks for a while"},
      {"POST", "/admin/unpin",
       [this](HttpRequest& request, HttpResponder&) { return OnReplica(request, UnpinTask(request)); }, "ends a pin"},
  };
  for (auto& route : reports_.MakeRoutes()) routes.push_back(std::move(route));
  for (const auto& [path, help] : AdminControl::kPaths)
    routes.push_back(
        {"POST", path, [this](HttpRequest& request, HttpResponder&) { return control_.Handle(request); }, help});
  return Routes<Handler>(std::move(routes));
}

asio::awaitable<HttpResponse> AdminApi::DashboardFile(const std::string& path) {
  co_return WebFile(WebPage::kDashboard, path);
}

asio::awaitable<HttpResponse> AdminApi::HelpPage() {
  Json list = Json::array();
  for (const auto& route : routes_.all()) {
    if (!route.help.empty()) list.push_back({{"method", route.method}, {"path", route.path}, {"help", route.help}});
  }
  HttpResponse response;
  response.body = DumpJson({{"endpoints", std::move(list)}});
  co_return response;
}

Json AdminApi::Status(const Engine& engine, int index) const {
  Replica& replica = replicas_.at(index);
  Json ranks = Json::array();
  for (Rank rank = 0; rank < replica.group().size(); ++rank)
    ranks.push_back(RankJson(replica.group().ranks()[static_cast<size_t>(rank)], rank));
  Json losses = Json::array();
  for (const LossLog::Entry& loss : replica.loop().losses().snapshot().latest) losses.push_back(LossJson(loss));
  const EngineStats& stats = engine.stats();
  return {{"state", StateOf(replica)},
          {"epoch", engine.epoch()},
          {"recoveries", replica.loop().num_recoveries()},
          {"losses", std::move(losses)},
          {"ranks", std::move(ranks)},
          {"transport",
           {{"encrypted", replica.group().encrypted()},
            {"refused_peers", replica.group().num_refused_peers()},
            {"foreign_frames", replica.group().num_foreign_frames()}}},
          {"blocks", PoolsJson(engine)},
          {"journal", JournalJson(replica.journal_health())},
          {"running", engine.scheduler().num_running()},
          {"waiting", engine.scheduler().num_waiting()},
          {"clients", ClientsJson(engine)},
          {"steps", stats.steps},
          {"generated_tokens", stats.generated_tokens},
          {"computed_tokens", stats.computed_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"preemptions", engine.scheduler().num_preemptions()},
          {"swapped_out", engine.scheduler().num_swapped_out()}};
}

/// The first replica's state at the top, as where there is only one; all of them under "replicas".
asio::awaitable<HttpResponse> AdminApi::StatusPage() {
  Json all = Json::array();
  Json page;
  for (int index = 0; index < replicas_.size(); ++index) {
    Json status;
    EngineTask read = [&](Engine& engine) {
      status = Status(engine, index);
      if (index > 0) return std::string();
      page["model"]["max_model_len"] = engine.options().max_model_len;
      page["settings"] = SettingsJson(options_.topology, replicas_.at(0).deployment(), engine.options());
      return std::string();
    };
    const std::string nothing = co_await OnEngine(replicas_.at(index).loop(), std::move(read));
    if (index == 0) page.update(status);
    status["replica"] = index;
    all.push_back(std::move(status));
  }
  page["version"] = kBuildVersion;
  page["warnings"] = options_.warnings;
  page["request_memory"] = RequestMemoryJson(options_.request_memory);
  page["model"]["name"] = options_.topology.model.name;
  page["model"]["path"] = options_.topology.model.path;
  page["replicas"] = std::move(all);
  const MigrationCounts moved = replicas_.migrations().counts();
  page["migrations"] = {
      {"with_blocks", moved.with_blocks}, {"bare", moved.bare}, {"failed", moved.failed}, {"bytes", moved.bytes}};
  HttpResponse response;
  response.body = DumpJson(page);
  co_return response;
}

int AdminApi::ReplicaOf(const HttpRequest& request) const {
  int64_t replica = 0;
  if (request.method == "POST" && !request.body.empty()) {
    const Json body = ParseJson(request.body, "body", {.max_depth = 4, .max_nodes = 200'000});
    replica = JsonFields(body).Integer("replica", 0, replicas_.size() - 1).value_or(0);
  } else {
    const QueryFields query(request.query, {"replica"});
    replica = query.Integer("replica", 0, replicas_.size() - 1).value_or(0);
  }
  return static_cast<int>(replica);
}

asio::awaitable<HttpResponse> AdminApi::FlushCaches() {
  int cached = 0;
  size_t pins = 0;
  for (int index = 0; index < replicas_.size(); ++index) {
    EngineTask flush = [&](Engine& engine) {
      cached += engine.blocks().pool().num_cached();
      pins += engine.blocks().pins().size();
      engine.FlushCache();
      return std::string();
    };
    const std::string nothing = co_await OnEngine(replicas_.at(index).loop(), std::move(flush));
  }
  HttpResponse response;
  response.body = DumpJson({{"flushed_blocks", cached}, {"dropped_pins", pins}});
  co_return response;
}

/// The engine's thread looks, the pool spells it out.
asio::awaitable<HttpResponse> AdminApi::BlocksPage(int replica, HttpResponder& responder) {
  std::function<std::shared_ptr<Json>(Engine&)> read = [](Engine& engine) {
    return std::make_shared<Json>(BlocksJson(engine));
  };
  std::shared_ptr<Json> blocks = co_await OnEngine(replicas_.at(replica).loop(), std::move(read));
  std::function<std::string(const std::stop_token&)> spell =
      [blocks = std::exchange(blocks, nullptr)](const std::stop_token&) { return DumpJson(*blocks); };
  std::optional<std::string> text = co_await OnPool(pool_, responder, kPoolClient, kPageBytes, std::move(spell));
  HttpResponse response;
  response.body = std::move(text).value_or("");
  co_return response;
}

/// Pins the cached blocks of a prompt.
asio::awaitable<HttpResponse> AdminApi::Pin(HttpRequest& request, HttpResponder& responder) {
  const size_t size = request.body.size();
  std::function<PinOrder(const std::stop_token&)> read =
      [this, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return ReadPinOrder(body, tokenizer_, replicas_.size(), stop);
      };
  std::optional<PinOrder> order = co_await OnPool(pool_, responder, kPoolClient, size, std::move(read));
  HttpResponse response;
  if (!order) co_return response;  // nobody waits for it any more
  const std::string salt = CacheSalt(order->key ? options_.client_of_key(*order->key) : "", order->cache_salt);
  EngineTask pin = [salt, tokens = std::move(order->tokens), seconds = order->seconds](Engine& engine) {
    const auto made = engine.PinPrefix(salt, tokens, EngineLoop::Now() + seconds);
    if (!made) return DumpJson({{"pinned_tokens", 0}, {"pin", nullptr}});
    const size_t blocks = engine.blocks().pins().back().blocks.size();
    return DumpJson({{"pinned_tokens", blocks * static_cast<size_t>(engine.blocks().block_size())}, {"pin", *made}});
  };
  response.body = co_await OnEngine(replicas_.at(order->replica).loop(), std::move(pin));
  co_return response;
}

AdminApi::EngineTask AdminApi::UnpinTask(const HttpRequest& request) const {
  const Json body = ParseJson(request.body, "body");
  const auto pin = JsonFields(body).Integer("pin", 1, INT64_MAX);
  if (!pin) JsonFields::Refuse("pin", "is missing");
  return [pin](Engine& engine) { return DumpJson({{"unpinned", engine.Unpin(static_cast<uint64_t>(*pin))}}); };
}

asio::awaitable<HttpResponse> AdminApi::OnReplica(const HttpRequest& request, EngineTask task) {
  const int replica = ReplicaOf(request);
  HttpResponse response;
  response.body = co_await OnEngine(replicas_.at(replica).loop(), std::move(task));
  co_return response;
}

asio::awaitable<void> AdminApi::Handle(HttpRequest& request, HttpResponder& responder) {
  HttpResponse response;
  try {
    const Handler* handler = routes_.Find(request);
    QUIRE_CHECK(handler != nullptr, "{} {} was admitted", request.method, request.path);
    if (request.body.size() > kLongestOrder && request.path != "/admin/pin")
      throw ApiError(413, fmt::format("the body is larger than {} bytes", kLongestOrder));
    response = co_await (*handler)(request, responder);
  } catch (const ApiError& error) {
    response = ErrorResponse(error);
  } catch (const Error& error) {
    response = ErrorResponse(400, error.what());
  }
  const bool streamed = responder.record.status != 0;  // it was the answer
  if (!streamed) co_await responder.Send(std::move(response));
}

}  // namespace quire
