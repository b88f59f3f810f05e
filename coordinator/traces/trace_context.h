#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// A client's `traceparent` header (W3C Trace Context, https://www.w3.org/TR/trace-context/): the trace of its request,
/// the calling span, and whether the trace is recorded. Ids are lower-case hexadecimal digits.
struct TraceContext {
  std::string trace_id;   // 32 digits
  std::string parent_id;  // 16 digits
  bool sampled = false;
};

/// Parses a traceparent header; nullopt when it is invalid.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

}  // namespace quire
