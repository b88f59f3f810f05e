#include "coordinator/batches/batch_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/json.h"
#include "coordinator/batches/member_text.h"

namespace quire {

namespace {

constexpr JsonLimits kLineLimits{.max_depth = 64, .max_nodes = 10'000'000};

Json ParsedLine(std::string_view line, const std::string& where) {
  try {
    return ParseJson(line, where, kLineLimits);
  } catch (const Error& error) {
    throw BatchLineError("invalid_json_line", "", error.what());
  }
}

/// Returns a string member. Throws an error that names the member when it is missing or no string.
std::string TextMember(const Json& object, const char* name, const std::string& where) {
  if (object.contains(name) && object[name].is_string()) return object[name].get<std::string>();
  throw BatchLineError(object.contains(name) ? "invalid_type" : "missing_required_parameter", name,
                       fmt::format("{}: \"{}\" must be a string", where, name));
}

}  // namespace

BatchLine ReadBatchLine(std::string_view line, const std::string& where) {
  const Json json = ParsedLine(line, where);
  if (!json.is_object()) throw BatchLineError("invalid_json_line", "", where + ": not a JSON object");
  BatchLine read{TextMember(json, "custom_id", where), TextMember(json, "url", where), {}};
  if (json.contains("method") && json["method"] != "POST")
    throw BatchLineError("invalid_method", "method", where + ": \"method\" must be \"POST\"");
  const auto cannot_be_in_urls = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
  if (read.url.size() < 2 || read.url[0] != '/' || std::ranges::any_of(read.url, cannot_be_in_urls)) {
    throw BatchLineError("invalid_url", "url",
                         where + ": \"url\" must be a path of the API, such as /v1/chat/completions");
  }
  if (!json.contains("body") || !json["body"].is_object()) {
    throw BatchLineError(json.contains("body") ? "invalid_type" : "missing_required_parameter", "body",
                         where + ": \"body\" must be an object");
  }
  const Json& body = json["body"];
  if (body.contains("stream") && body["stream"] != false)
    throw BatchLineError("invalid_value", "body.stream", where + ": answers of a batch cannot be streamed");
  read.body = MemberText(line, "body");
  return read;
}

std::string BatchAnswerLine(const std::string& id, const std::string& custom_id, int status,
                            const std::string& request_id, std::string_view body) {
  return fmt::format("{}{}{}", BatchAnswerBegin(id, custom_id, status, request_id), body, kBatchAnswerEnd);
}

std::string BatchAnswerBegin(const std::string& id, const std::string& custom_id, int status,
                             const std::string& request_id) {
  return fmt::format(R"({{"id":{},"custom_id":{},"response":{{"status_code":{},"request_id":{},"body":)", DumpJson(id),
                     DumpJson(custom_id), status, DumpJson(request_id));
}

std::string BatchErrorLine(const std::string& id, const std::string& custom_id, std::string_view code,
                           const std::string& message) {
  return fmt::format(R"({{"id":{},"custom_id":{},"response":null,"error":{{"code":"{}","message":{}}}}})", DumpJson(id),
                     DumpJson(custom_id), code, DumpJson(message));
}

std::string OnOneLine(std::string json) {
  std::erase_if(json, [](char c) { return c == '\n' || c == '\r'; });
  return json;
}

}  // namespace quire
