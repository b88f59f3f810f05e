#include "coordinator/api/admin_api.h"

#include <boost/asio/this_coro.hpp>
#include <map>

#include "comm/error.h"
#include "comm/json.h"
#include "comm/messages.h"
#include "coordinator/api/handoff.h"

namespace quire {

namespace asio = boost::asio;

namespace {

/// A web page of another site must not reach a loopback admin port through the user's browser.
bool IsForeign(const HttpRequest& request) {
  std::string host = request.Header("host");
  if (const size_t colon = host.rfind(':'); colon != std::string::npos && host.find(']', colon) == std::string::npos)
    host.resize(colon);
  const bool local = host == "localhost" || host == "127.0.0.1" || host == "[::1]";
  return !local || !request.Header("origin").empty();
}

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

Json BlockJson(const Engine& engine) {
  const BlockManager& blocks = engine.blocks();
  return {{"total", blocks.num_usable()},
          {"free", blocks.num_free()},
          {"used", blocks.pool().num_held()},
          {"cached", blocks.pool().num_cached()}};
}

}  // namespace

AdminApi::AdminApi(Options options, EngineLoop& engine, const WorkerGroup& group, Metrics& metrics)
    : options_(std::move(options)), engine_(engine), group_(group), metrics_(metrics) {}

asio::awaitable<std::string> AdminApi::FromEngine(std::function<std::string(const Engine&)> read) {
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<std::string>>(io);
  engine_.Post([handoff, read = std::move(read)](Engine& engine) { handoff->Deliver(read(engine)); });
  std::string text = co_await handoff->Take();
  co_return text;
}

std::string AdminApi::Status(const Engine& engine) const {
  Json ranks = Json::array();
  for (Rank rank = 0; rank < group_.size(); ++rank)
    ranks.push_back(RankJson(group_.ranks()[static_cast<size_t>(rank)], rank));
  const EngineStats& stats = engine.stats();
  return DumpJson({{"state", engine_.serving() ? "serving" : "failed"},
                   {"version", kBuildVersion},
                   {"model",
                    {{"name", options_.model_name},
                     {"path", options_.model_path},
                     {"max_model_len", engine.options().max_model_len}}},
                   {"epoch", options_.epoch},
                   {"ranks", std::move(ranks)},
                   {"blocks", {{"device", BlockJson(engine)}, {"block_size", engine.blocks().block_size()}}},
                   {"running", engine.scheduler().num_running()},
                   {"waiting", engine.scheduler().num_waiting()},
                   {"steps", stats.steps},
                   {"generated_tokens", stats.generated_tokens},
                   {"computed_tokens", stats.computed_tokens},
                   {"preemptions", engine.scheduler().num_preemptions()}});
}

std::string AdminApi::Blocks(const Engine& engine) const {
  struct Use {
    Json owners = Json::array();
    int filled = 0;
  };
  std::map<BlockId, Use> uses;
  const int block_size = engine.blocks().block_size();
  for (const Request* request : engine.scheduler().running()) {
    for (const Sequence& sequence : request->sequences) {
      for (size_t i = 0; i < sequence.blocks.size(); ++i) {
        Use& use = uses[sequence.blocks[i]];
        use.owners.push_back({{"request", request->id}, {"choice", sequence.choice}, {"index", i}});
        use.filled =
            std::max(use.filled, std::clamp(sequence.num_computed - static_cast<int>(i) * block_size, 0, block_size));
      }
    }
  }
  Json list = Json::array();
  for (auto& [id, use] : uses) {
    list.push_back({{"id", id},
                    {"ref_count", engine.blocks().pool().ref_count(id)},
                    {"filled", use.filled},
                    {"owners", std::move(use.owners)}});
  }
  Json out = BlockJson(engine);
  out["block_size"] = block_size;
  out["blocks"] = std::move(list);
  return DumpJson(out);
}

asio::awaitable<void> AdminApi::Handle(const HttpRequest& request, HttpResponder& responder) {
  HttpResponse response = ErrorResponse(404, "no such admin endpoint");
  if (options_.loopback_only && IsForeign(request)) {
    response = ErrorResponse(403, "the admin port answers local requests only");
  } else if (request.method != "GET" && request.method != "HEAD") {
    response = ErrorResponse(405, "use GET");
  } else if (request.path == "/admin/status") {
    std::function<std::string(const Engine&)> read = [this](const Engine& engine) { return Status(engine); };
    std::string body = co_await FromEngine(std::move(read));
    response = HttpResponse();
    response.body = std::move(body);
  } else if (request.path == "/admin/blocks") {
    std::function<std::string(const Engine&)> read = [this](const Engine& engine) { return Blocks(engine); };
    std::string body = co_await FromEngine(std::move(read));
    response = HttpResponse();
    response.body = std::move(body);
  } else if (request.path == "/metrics") {
    Metrics::Gauges gauges;
    std::function<std::string(const Engine&)> read = [&gauges](const Engine& engine) {
      gauges = {engine.scheduler().num_running(),
                engine.scheduler().num_waiting(),
                engine.blocks().pool().num_held(),
                engine.blocks().num_usable(),
                engine.stats(),
                engine.scheduler().num_preemptions()};
      return std::string();
    };
    const std::string nothing = co_await FromEngine(std::move(read));
    response = HttpResponse{200, "text/plain; version=0.0.4; charset=utf-8", metrics_.Page(gauges), {}};
  }
  co_await responder.Send(std::move(response));
}

}  // namespace quire
