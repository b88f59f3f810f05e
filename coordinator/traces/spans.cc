#include "coordinator/traces/spans.h"

#include "comm/base/json.h"
#include "coordinator/traces/trace_context.h"

namespace quire {

namespace {

enum SpanKind { kInternal = 1, kServer = 2 };
constexpr int kStatusError = 2;

Json Attribute(const char* name, const std::string& value) {
  return {{"key", name}, {"value", {{"stringValue", value}}}};
}
Json Attribute(const char* name, double value) { return {{"key", name}, {"value", {{"doubleValue", value}}}}; }
/// Returns an attribute with a 64-bit integer, which protobuf's JSON writes as a string.
Json Attribute(const char* name, int64_t value) {
  return {{"key", name}, {"value", {{"intValue", std::to_string(value)}}}};
}

struct Times {
  int64_t begin = 0, end = 0;  // nanoseconds since 1970
};

Json Span(const std::string& trace, const std::string& id, const std::string& parent, const std::string& name,
          SpanKind kind, Times times) {
  Json span = {{"traceId", trace},
               {"spanId", id},
               {"name", name},
               {"kind", static_cast<int>(kind)},
               {"startTimeUnixNano", std::to_string(times.begin)},
               {"endTimeUnixNano", std::to_string(times.end)}};
  if (!parent.empty()) span["parentSpanId"] = parent;
  return span;
}

Json AttributesOf(const RequestRecord& record) {
  Json attributes = {Attribute("http.request.method", record.method), Attribute("url.path", record.path),
                     Attribute("gen_ai.request.id", record.id)};
  if (record.status != 0)
    attributes.push_back(Attribute("http.response.status_code", static_cast<int64_t>(record.status)));
  if (!record.client.empty()) attributes.push_back(Attribute("enduser.id", record.client));
  if (!record.peer.empty()) attributes.push_back(Attribute("client.address", record.peer));
  if (record.prompt_tokens == 0) return attributes;
  attributes.push_back(Attribute("gen_ai.usage.prompt_tokens", static_cast<int64_t>(record.prompt_tokens)));
  attributes.push_back(Attribute("gen_ai.usage.completion_tokens", static_cast<int64_t>(record.completion_tokens)));
  attributes.push_back(Attribute("gen_ai.latency.e2e", record.seconds));
  if (record.queue_seconds) attributes.push_back(Attribute("gen_ai.latency.time_in_queue", *record.queue_seconds));
  if (record.first_token_seconds)
    attributes.push_back(Attribute("gen_ai.latency.time_to_first_token", *record.first_token_seconds));
  return attributes;
}

}  // namespace

std::vector<Json> SpansOf(const RequestRecord& record, std::chrono::system_clock::time_point ended,
                          const std::function<std::string(int bytes)>& new_id) {
  const auto context = ParseTraceparent(record.traceparent);
  if (context && !context->sampled) return {};
  const auto nanos = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
  const int64_t end = std::chrono::duration_cast<std::chrono::nanoseconds>(ended.time_since_epoch()).count();
  const int64_t begin = end - nanos(record.seconds);
  const std::string trace = context ? context->trace_id : new_id(16), root = new_id(8);
  std::vector<Json> spans = {
      Span(trace, root, context ? context->parent_id : "", record.method + " " + record.path, kServer, {begin, end})};
  spans[0]["attributes"] = AttributesOf(record);
  if (record.status >= 500 || record.status == 0) spans[0]["status"] = {{"code", kStatusError}};
  const auto add = [&](const char* name, int64_t from, int64_t to) {
    spans.push_back(Span(trace, new_id(8), root, name, kInternal, {from, to}));
  };
  if (!record.queue_seconds) return spans;
  const int64_t computed = begin + nanos(*record.queue_seconds);
  add("queue", begin, computed);
  if (!record.first_token_seconds) return spans;
  const int64_t first = begin + nanos(*record.first_token_seconds);
  add("prefill", computed, first);
  add("decode", first, end);
  return spans;
}

}  // namespace quire
