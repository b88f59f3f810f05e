#include "coordinator/client/event_stream.h"

#include <algorithm>
#include <string_view>

#include "comm/base/json.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace {

/// Passes the complete lines of `text` that are events to `on_event`, and removes all complete lines. `searched`: the
/// number of bytes at the beginning of `text` that are known to have no line end.
void TakeLines(std::string& text, size_t& searched, const std::function<void(const Json&)>& on_event) {
  constexpr std::string_view kData = "data: {";
  size_t at = 0;
  for (size_t end; (end = text.find('\n', std::max(at, searched))) != std::string::npos; at = end + 1) {
    if (text.compare(at, kData.size(), kData) == 0)
      on_event(ParseJson(std::string_view(text).substr(at + 6, end - at - 6), "an event"));
  }
  text.erase(0, at);
  searched = text.size();
}

}  // namespace

boost::asio::awaitable<std::string> ReadEvents(const ClientRequest& request,
                                               const std::function<void(const Json&)>& on_event) {
  size_t searched = 0;
  const OnBody take = [&](std::string& body) { TakeLines(body, searched, on_event); };
  const ClientAnswer answer = co_await Send(request, take);
  if (!answer.problem.empty()) co_return answer.problem;
  co_return answer.status == 200 ? "" : RefusalOf(answer);
}

}  // namespace quire
