#include "coordinator/api/admin_api.h"

#include <boost/asio/this_coro.hpp>

#include "comm/error.h"
#include "comm/json.h"
#include "comm/messages.h"
#include "coordinator/api/block_report.h"
#include "coordinator/api/generation.h"
#include "coordinator/api/handoff.h"
#include "coordinator/api/json_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

Json RankJson(const RankInfo& info, Rank rank) {
  const auto age = std::chrono::steady_clock::now() - info.last_beat;
  return {{"rank", rank},
          {"host", info.host},
          {"pid", info.pid},
          {"isa", info.isa},
          {"weight_bytes", info.weight_bytes},
          {"kv_bytes_per_block", info.bytes_per_block},
          {"last_step", info.last_step},
          {"last_step_micros", info.compute_micros},
          {"heartbeat_age_millis", std::chrono::duration_cast<std::chrono::milliseconds>(age).count()}};
}

const char* StateName(const EngineLoop& engine) {
  if (engine.recovering()) return "recovering";
  if (!engine.serving()) return "failed";
  return engine.paused() ? "paused" : "serving";
}

Json LossJson(const LossLog::Entry& loss) {
  const std::chrono::duration<double> ago = LossLog::Clock::now() - loss.when;
  return {{"epoch", loss.epoch},
          {"cause", LossCauseName(loss.cause)},
          {"rank", loss.rank < 0 ? Json() : Json(loss.rank)},
          {"host", loss.host.empty() ? Json() : Json(loss.host)},
          {"message", loss.message},
          {"seconds_ago", ago.count()},
          {"stall_seconds", loss.stall_seconds < 0 ? Json() : Json(loss.stall_seconds)}};
}

constexpr double kDefaultPinSeconds = 600, kLongestPinSeconds = 7 * 24 * 3600.0;

}  // namespace

AdminApi::AdminApi(Options options, EngineLoop& engine, const WorkerGroup& group, Metrics& metrics,
                   const Tokenizer& tokenizer, AdminControl& control)
    : options_(std::move(options)),
      engine_(engine),
      group_(group),
      metrics_(metrics),
      tokenizer_(tokenizer),
      control_(control) {}

asio::awaitable<std::string> AdminApi::OnEngine(EngineTask task) {
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<std::string>>(io);
  engine_.Post([handoff, task = std::move(task)](Engine& engine) { handoff->Deliver(task(engine)); });
  std::string text = co_await handoff->Take();
  co_return text;
}

std::string AdminApi::Status(const Engine& engine) const {
  Json ranks = Json::array();
  for (Rank rank = 0; rank < group_.size(); ++rank)
    ranks.push_back(RankJson(group_.ranks()[static_cast<size_t>(rank)], rank));
  Json losses = Json::array();
  for (const LossLog::Entry& loss : engine_.losses().snapshot().latest) losses.push_back(LossJson(loss));
  const EngineStats& stats = engine.stats();
  return DumpJson({{"state", StateName(engine_)},
                   {"version", kBuildVersion},
                   {"model",
                    {{"name", options_.model_name},
                     {"path", options_.model_path},
                     {"max_model_len", engine.options().max_model_len}}},
                   {"epoch", engine.epoch()},
                   {"recoveries", engine_.num_recoveries()},
                   {"losses", std::move(losses)},
                   {"ranks", std::move(ranks)},
                   {"transport",
                    {{"encrypted", group_.encrypted()},
                     {"refused_peers", group_.num_refused_peers()},
                     {"foreign_frames", group_.num_foreign_frames()}}},
                   {"warnings", options_.warnings},
                   {"blocks", PoolsJson(engine)},
                   {"running", engine.scheduler().num_running()},
                   {"waiting", engine.scheduler().num_waiting()},
                   {"steps", stats.steps},
                   {"generated_tokens", stats.generated_tokens},
                   {"computed_tokens", stats.computed_tokens},
                   {"cached_tokens", stats.cached_tokens},
                   {"preemptions", engine.scheduler().num_preemptions()},
                   {"swapped_out", engine.scheduler().num_swapped_out()}});
}

AdminApi::EngineTask AdminApi::ReadTask(const std::string& path) const {
  if (path == "/admin/status") return [this](Engine& engine) { return Status(engine); };
  if (path == "/admin/blocks") return [](Engine& engine) { return DumpJson(BlocksJson(engine)); };
  return nullptr;
}

/// Pins the cached blocks of a prompt: {"prompt": text or token ids, "ttl_seconds", "cache_salt", "api_key"}; the key
/// is the one with which the prompt's clients come.
AdminApi::EngineTask AdminApi::PinTask(const HttpRequest& request) const {
  const Json body = ParseJson(request.body, "body", {.max_depth = 4, .max_nodes = 200'000});
  const JsonFields fields(body);
  const Json* prompt = fields.Find("prompt");
  std::vector<TokenId> tokens;
  if (prompt != nullptr && prompt->is_string()) {
    tokens = tokenizer_.EncodePrompt(prompt->get<std::string>(), fields.Flag("add_special_tokens", true));
  } else if (prompt != nullptr && prompt->is_array()) {
    for (const Json& token : *prompt) {
      if (!token.is_number_integer()) JsonFields::Refuse("prompt", "must be text or token ids");
      tokens.push_back(token.get<TokenId>());
    }
  } else {
    JsonFields::Refuse("prompt", "must be text or token ids");
  }
  const auto key = fields.Text("api_key");
  const std::string salt = CacheSalt(key ? options_.client_of_key(*key) : "", fields.Text("cache_salt").value_or(""));
  const double seconds = fields.Number("ttl_seconds", 0.001, kLongestPinSeconds).value_or(kDefaultPinSeconds);
  return [=, tokens = std::move(tokens)](Engine& engine) {
    const auto pin = engine.PinPrefix(salt, tokens, EngineLoop::Now() + seconds);
    if (!pin) return DumpJson({{"pinned_tokens", 0}, {"pin", nullptr}});
    const size_t blocks = engine.blocks().pins().back().blocks.size();
    return DumpJson({{"pinned_tokens", blocks * static_cast<size_t>(engine.blocks().block_size())}, {"pin", *pin}});
  };
}

AdminApi::EngineTask AdminApi::ChangeTask(const HttpRequest& request) const {
  if (request.path == "/admin/flush_cache" || request.path == "/reset_prefix_cache") {
    return [](Engine& engine) {
      const int cached = engine.blocks().pool().num_cached();
      const size_t pins = engine.blocks().pins().size();
      engine.FlushCache();
      return DumpJson({{"flushed_blocks", cached}, {"dropped_pins", pins}});
    };
  }
  if (request.path == "/admin/pin") return PinTask(request);
  if (request.path == "/admin/unpin") {
    const Json body = ParseJson(request.body, "body");
    const auto pin = JsonFields(body).Integer("pin", 1, INT64_MAX);
    if (!pin) JsonFields::Refuse("pin", "is missing");
    return [pin](Engine& engine) { return DumpJson({{"unpinned", engine.Unpin(static_cast<uint64_t>(*pin))}}); };
  }
  return nullptr;
}

asio::awaitable<HttpResponse> AdminApi::MetricsPage() {
  Metrics::Gauges gauges;
  EngineTask read = [this, &gauges](Engine& engine) {
    gauges = {engine.scheduler().num_running(),
              engine.scheduler().num_waiting(),
              engine.blocks().pool().num_held(),
              engine.blocks().num_usable(),
              engine.stats(),
              engine.scheduler().num_preemptions(),
              engine.epoch(),
              engine_.losses().snapshot()};
    return std::string();
  };
  const std::string nothing = co_await OnEngine(std::move(read));
  co_return HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics_.Page(gauges), {}};
}

asio::awaitable<HttpResponse> AdminApi::Answer(const HttpRequest& request) {
  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  if (!get && !post) throw ApiError(405, "use GET or POST");
  HttpResponse response;
  if (post && AdminControl::Handles(request.path)) {
    response = co_await control_.Handle(request);
    co_return response;
  }
  if (get && request.path == "/metrics") {
    response = co_await MetricsPage();
    co_return response;
  }
  EngineTask task = get ? ReadTask(request.path) : ChangeTask(request);
  if (task == nullptr) throw ApiError(404, "no such admin endpoint");
  response.body = co_await OnEngine(std::move(task));
  co_return response;
}

asio::awaitable<void> AdminApi::Handle(const HttpRequest& request, HttpResponder& responder) {
  HttpResponse response;
  try {
    response = co_await Answer(request);
  } catch (const ApiError& error) {
    response = ErrorResponse(error.status, error.what(), error.param);
  } catch (const Error& error) {
    response = ErrorResponse(400, error.what());
  }
  co_await responder.Send(std::move(response));
}

}  // namespace quire
