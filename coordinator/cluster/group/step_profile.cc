#include "coordinator/cluster/group/step_profile.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

namespace quire {

namespace {

int64_t Micros(StepProfile::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

}  // namespace

void AppendTrace(const StepProfile::Recording& recording, int replica, StepProfile::Clock::time_point begin,
                 std::string& events) {
  const auto append = [&](auto&&... parts) {
    if (!events.empty()) events += ',';
    fmt::format_to(std::back_inserter(events), std::forward<decltype(parts)>(parts)...);
  };
  append(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"replica {}"}}}})", replica, replica);
  std::set<Rank> named;
  for (const StepProfile::Span& span : recording.spans) {
    const int thread = span.rank + 1;  // the engine's is 0
    if (named.insert(span.rank).second) {
      append(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", replica, thread,
             span.rank == StepProfile::kEngine ? "engine" : fmt::format("rank {}", span.rank));
    }
    append(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{})", span.name, replica, thread,
           Micros(span.begin - begin), Micros(span.end - span.begin));
    if (span.rank != StepProfile::kEngine) {
      fmt::format_to(std::back_inserter(events), R"(,"args":{{"step":{},"swap_us":{}}})", span.step, span.swap_micros);
    }
    events += '}';
  }
}

}  // namespace quire
