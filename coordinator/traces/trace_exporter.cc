#include "coordinator/traces/trace_exporter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <random>

#include "comm/base/error.h"
#include "coordinator/client/event_stream.h"
#include "coordinator/traces/otel_variables.h"
#include "coordinator/traces/spans.h"

namespace quire {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kMostWaiting = 4096, kBatch = 512;  // most spans that wait; spans of one batch
constexpr auto kPause = std::chrono::seconds(1);     // pause between batches that are not full
constexpr auto kPatience = std::chrono::seconds(5);  // timeout of the collector's answer
constexpr auto kLastPatience = std::chrono::seconds(2);
constexpr auto kBetweenWarnings = std::chrono::minutes(1);

std::string RandomId(int bytes) {
  static thread_local std::random_device source;
  std::string id;
  for (; bytes > 0; bytes -= 4) id += fmt::format("{:08x}", source());
  return id;
}

}  // namespace

Collector ParseCollector(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) Fail("traces.endpoint: \"{}\" is not http://HOST:PORT/PATH, or https", url);
  const size_t slash = url.find('/', scheme + 3);
  const bool has_path = slash != std::string::npos && slash + 1 < url.size();
  return {ParseServerAddress(url.substr(0, slash), "traces.endpoint"), has_path ? url.substr(slash) : "/v1/traces"};
}

void TakeOtelVariables(std::string& endpoint) {
  const OtelVariables variables = ReadOtelVariables();
  if (endpoint.empty()) endpoint = variables.endpoint;
  if (variables.disabled) endpoint.clear();
  if (!endpoint.empty()) (void)ParseCollector(endpoint);
}

TraceExporter::TraceExporter(Collector collector, std::vector<std::pair<std::string, std::string>> headers,
                             const std::map<std::string, std::string>& resource)
    : collector_(std::move(collector)), headers_(std::move(headers)) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back({{"key", key}, {"value", {{"stringValue", value}}}});
  resource_ = {{"attributes", std::move(attributes)}};
  thread_ = std::thread([this] { Run(); });
}

TraceExporter::~TraceExporter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TraceExporter::Add(const RequestRecord& record) {
  std::vector<Json> spans = SpansOf(record, std::chrono::system_clock::now(), RandomId);
  const std::lock_guard lock(mutex_);
  if (waiting_.size() + spans.size() > kMostWaiting) {
    lost_ += static_cast<int64_t>(spans.size());
    return;
  }
  for (Json& span : spans) waiting_.push_back(std::move(span));
  if (waiting_.size() >= kBatch) changed_.notify_one();
}

int64_t TraceExporter::num_lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

/// Sends spans, and waits at most `patience` for the answer. Returns the reason why the collector did not accept them;
/// empty when it did.
std::string TraceExporter::Send(std::vector<Json> spans, std::chrono::seconds patience) const {
  Json body = {
      {"resourceSpans",
       {{{"resource", resource_}, {"scopeSpans", {{{"scope", {{"name", "quire"}}}, {"spans", std::move(spans)}}}}}}}};
  std::string problem = fmt::format("no answer in {} s", patience.count());
  try {
    ClientRequest request{collector_.server, collector_.server.Resolve(), "", collector_.path, DumpJson(body)};
    request.headers = headers_;
    const std::function<void(const Json&)> ignore = [](const Json&) {};
    asio::io_context io;
    const auto post = [&]() -> asio::awaitable<void> { problem = co_await ReadEvents(request, ignore); };
    asio::co_spawn(io, post, [](const std::exception_ptr&) {});
    io.run_for(patience);
  } catch (const Error& error) {
    problem = error.what();
  }
  return problem;
}

void TraceExporter::Run() {
  auto next_warning = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ending_ || !waiting_.empty()) {
    changed_.wait_for(lock, kPause, [&] { return ending_ || waiting_.size() >= kBatch; });
    if (waiting_.empty()) continue;
    const bool last = ending_;
    const size_t count = last ? waiting_.size() : std::min(kBatch, waiting_.size());
    std::vector<Json> batch(std::make_move_iterator(waiting_.begin()),
                            std::make_move_iterator(waiting_.begin() + static_cast<std::ptrdiff_t>(count)));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    lock.unlock();
    const std::string problem = Send(std::move(batch), last ? kLastPatience : kPatience);
    lock.lock();
    if (problem.empty()) continue;
    lost_ += static_cast<int64_t>(count);
    if (Clock::now() < next_warning) continue;
    spdlog::warn("traces: {}: {}; {} spans lost so far", collector_.server.authority(), problem, lost_);
    next_warning = Clock::now() + kBetweenWarnings;
  }
}

}  // namespace quire
