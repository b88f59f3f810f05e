#include "coordinator/api/admin/pin_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/access/client_id.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/admin/pin_order.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/kv_disk/stored_pins.h"

namespace quire {

namespace asio = boost::asio;

namespace {

std::string NewPinName() { return fmt::format("{:016x}", GroupBlocks::NewTicket()); }

/// Pins the prompt's cached blocks for `seconds`, and returns the answer's JSON text. Call it on the engine's thread.
std::string PinOn(Replica& replica, StoredPin prompt, double seconds) {
  Engine& engine = replica.engine();
  const double now = EngineLoop::Now();
  const std::string name = replica.tier() != nullptr ? prompt.name : "";
  const auto made = name.empty() ? engine.PinPrefix(prompt.salt, prompt.tokens, now + seconds)
                                 : replica.tier()->pins().Pin(std::move(prompt), seconds, now);
  if (!made) return DumpJson({{"pinned_tokens", 0}, {"pin", nullptr}});
  const size_t blocks = engine.blocks().pins().all().back().blocks.size();
  Json answer = {{"pinned_tokens", blocks * static_cast<size_t>(engine.blocks().block_size())}, {"pin", *made}};
  if (!name.empty()) answer["name"] = name;
  return DumpJson(answer);
}

Json PinsOf(Replica& replica) {
  Json pins = Json::array();
  for (const PrefixPin& pin : replica.engine().blocks().pins().all()) {
    Json each = {{"pin", pin.id},
                 {"replica", replica.index()},
                 {"blocks", pin.blocks.size()},
                 {"seconds_left", std::max(0.0, pin.expires_seconds - EngineLoop::Now())}};
    if (replica.tier() != nullptr) each["name"] = replica.tier()->pins().NameOf(pin.id);
    pins.push_back(std::move(each));
  }
  return pins;
}

}  // namespace

std::vector<AdminRoutes::Route> PinPages::MakeRoutes() {
  return {
      {"POST", "/admin/pin", [this](HttpRequest& request, HttpResponder& responder) { return Pin(request, responder); },
       "keeps a prompt's cached blocks for a while; with --kv-disk under a name, over restarts, too"},
      {"POST", "/admin/unpin", [this](HttpRequest& request, HttpResponder&) { return Unpin(request); }, "ends a pin"},
      {"GET", "/admin/pins", [this](HttpRequest& request, HttpResponder&) { return List(request); }, "all pins"},
  };
}

asio::awaitable<HttpResponse> PinPages::Pin(HttpRequest& request, HttpResponder& responder) {
  const size_t size = request.body.size();
  ServedModel& model = TakeAskedModel(models_, request);
  const auto workers = HoldAsked(model);
  std::function<PinOrder(const std::stop_token&)> read =
      [&model, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return ReadPinOrder(body, model.text().tokenizer, model.replicas().size(), stop);
      };
  std::optional<PinOrder> order = co_await OnPool(pool_, responder, kPoolClient, size, std::move(read));
  HttpResponse response;
  if (!order) co_return response;  // the client is gone
  Replica& replica = model.replicas().at(order->replica);
  if (!order->name.empty() && replica.deployment().kv_store() == nullptr)
    JsonFields::Refuse("name", "needs --kv-disk, where named prompts are kept");
  StoredPin prompt{.name = order->name.empty() ? NewPinName() : order->name,
                   .salt = CacheSalt(order->key ? client_of_key_(*order->key) : "", order->cache_salt),
                   .tokens = std::move(order->tokens)};
  std::function<std::string(Engine&)> pin = [&replica, prompt = std::move(prompt), seconds = order->seconds](Engine&) {
    return PinOn(replica, prompt, seconds);
  };
  response.body = co_await OnEngine(replica.loop(), std::move(pin));
  co_return response;
}

asio::awaitable<HttpResponse> PinPages::Unpin(HttpRequest& request) {
  const auto workers = HoldAsked(TakeAskedModel(models_, request));
  Replicas& replicas = workers->replicas();
  const Json body = ParseJson(request.body, "body");
  const JsonFields fields(body);
  const auto pin = fields.Integer("pin", 1, INT64_MAX);
  const auto name = fields.Text("name");
  if (pin.has_value() == name.has_value()) JsonFields::Refuse("pin", "or \"name\" must say which");
  const auto index = fields.Integer("replica", 0, replicas.size() - 1).value_or(0);
  Replica& replica = replicas.at(static_cast<int>(index));
  std::function<std::string(Engine&)> unpin = [&replica, pin, name](Engine& engine) {
    KvTier* const tier = replica.tier();
    bool ended = false;
    if (name)
      ended = tier != nullptr && tier->pins().Unpin(*name);
    else
      ended =
          tier != nullptr ? tier->pins().Unpin(static_cast<uint64_t>(*pin)) : engine.Unpin(static_cast<uint64_t>(*pin));
    return DumpJson({{"unpinned", ended}});
  };
  HttpResponse response;
  response.body = co_await OnEngine(replica.loop(), std::move(unpin));
  co_return response;
}

asio::awaitable<HttpResponse> PinPages::List(HttpRequest& request) {
  const auto workers = HoldAsked(TakeAskedModel(models_, request));
  Json pins = Json::array();
  for (int r = 0; r < workers->replicas().size(); ++r) {
    Replica& replica = workers->replicas().at(r);
    std::function<Json(Engine&)> list = [&replica](Engine&) { return PinsOf(replica); };
    const Json some = co_await OnEngine(replica.loop(), std::move(list));
    pins.insert(pins.end(), some.begin(), some.end());
  }
  HttpResponse response;
  response.body = DumpJson({{"pins", std::move(pins)}});
  co_return response;
}

}  // namespace quire
