#include "coordinator/bench/stream_client.h"

#include "comm/base/json.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

boost::asio::awaitable<void> TimeStream(ClientRequest request, StreamTimes& times) {
  times.begin = std::chrono::steady_clock::now();
  const auto elapsed = [&times] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - times.begin).count();
  };
  const std::function<void(const Json&)> on_event = [&](const Json& event) {
    if (event.contains("error")) times.problem = DumpJson(event["error"]);
    if (event.contains("choices") && !event["choices"].empty()) times.events.push_back(elapsed());
    if (event.contains("usage") && event["usage"].is_object())
      times.tokens = event["usage"].value("completion_tokens", 0);
  };
  const std::string problem = co_await ReadEvents(request, on_event);
  times.end = elapsed();
  if (!problem.empty()) {
    times.problem = problem;
  } else if (times.problem.empty() && times.events.empty()) {
    times.problem = "no token came";
  }
  if (times.tokens == 0) times.tokens = static_cast<int>(times.events.size());
}

}  // namespace quire
