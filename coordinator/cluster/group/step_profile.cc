#include "coordinator/cluster/group/step_profile.h"

#include <fmt/format.h>

#include <set>

namespace quire {

namespace {

int64_t Micros(StepProfile::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

void AppendTrace(const StepProfile::Recording& recording, int replica, StepProfile::Clock::time_point begin,
                 std::string& events) {
  const auto append = [&](const std::string& event) {
    if (!events.empty()) events += ',';
    events += event;
  };
  append(fmt::format(R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"replica {0}"}}}})", replica));
  std::set<Rank> named;
  for (const StepProfile::Span& span : recording.spans) {
    const int thread = span.rank + 1;  // the engine's thread is 0
    if (named.insert(span.rank).second) {
      append(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", replica,
                         thread, span.rank == StepProfile::kEngine ? "engine" : fmt::format("rank {}", span.rank)));
    }
    append(fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{})", span.name, replica, thread,
                       Micros(span.begin - begin), Micros(span.end - span.begin)));
    if (span.rank != StepProfile::kEngine)
      events += fmt::format(R"(,"args":{{"step":{},"swap_us":{}}})", span.step, span.swap_micros);
    events += '}';
  }
}

}  // namespace quire
