#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// What a client's header `traceparent` says (W3C Trace Context, https://www.w3.org/TR/trace-context/): the trace that
/// its request belongs to, the span that asked, and whether anybody records it. Ids are lower-case hexadecimal digits.
struct TraceContext {
  std::string trace_id;   // 32 digits
  std::string parent_id;  // 16 digits
  bool sampled = false;
};

/// Nothing when it is not as the standard has it.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

}  // namespace quire
