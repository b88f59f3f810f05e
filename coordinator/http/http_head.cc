#include "coordinator/http/http_head.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace http = boost::beast::http;
using boost::beast::iequals;

namespace {

bool IsPlainTarget(boost::beast::string_view target) {
  if (target.empty() || target[0] != '/') return false;
  return std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool IsPlainLength(boost::beast::string_view value) {
  const bool digits = std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  return !value.empty() && digits && (value.size() == 1 || value[0] != '0');
}

bool IsPlainHost(boost::beast::string_view host) {
  return !host.empty() && host.size() <= 260 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
           c == ':' || c == '[' || c == ']' || c == '_';
  });
}

std::string FramingProblem(const HttpHead& head) {
  const bool v11 = head.version() == 11;
  const auto codings = head.count(http::field::transfer_encoding);
  const auto lengths = head.count(http::field::content_length);
  if (codings > 0 &&
      (!v11 || codings > 1 || lengths > 0 || !iequals(head[http::field::transfer_encoding], "chunked"))) {
    return "this Transfer-Encoding is not accepted";
  }
  if (lengths > 1 || (lengths == 1 && !IsPlainLength(head[http::field::content_length])))
    return "Content-Length must be one plain number";
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (v11 && hosts != 1)) return "exactly one Host header is needed";
  if (hosts == 1 && !IsPlainHost(head[http::field::host])) return "the Host header is malformed";
  return "";
}

/// Returns the value of Content-Length; nothing when the header is missing or is not a number.
std::optional<size_t> DeclaredLength(const HttpHead& head) {
  const auto text = head[http::field::content_length];
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return length;
}

/// Returns the path without the query and, below /v1/, without the slash that some clients leave at its end.
std::string PathOf(const HttpHead& head) {
  std::string path(head.target().substr(0, head.target().find('?')));
  if (path.starts_with("/v1/") && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::string NewRequestId() {
  std::array<unsigned char, 16> bytes{};
  const int failed = ::getentropy(bytes.data(), bytes.size());
  QUIRE_CHECK(failed == 0, "the system gives no random bytes: errno {}", errno);
  return fmt::format("req-{:02x}", fmt::join(bytes, ""));
}

void SetLimits(HttpParser& parser, const HttpLimits& limits) {
  parser.header_limit(static_cast<uint32_t>(limits.head_bytes));
  parser.body_limit(std::max(limits.body_bytes, limits.upload_bytes));  // until the head is read (BodyLimit)
}

std::optional<HttpResponse> RefuseHead(const HttpHead& head, const HttpLimits& limits) {
  if (head.target().size() > limits.target_bytes) return ErrorResponse(414, "the request target is too long");
  if (head.method() == http::verb::unknown || head.method() == http::verb::connect)
    return ErrorResponse(400, "unknown method");
  if (!IsPlainTarget(head.target())) return ErrorResponse(400, "the request target must be a path");
  if (static_cast<size_t>(std::distance(head.begin(), head.end())) > limits.header_fields)
    return ErrorResponse(431, "too many header fields");
  if (const std::string problem = FramingProblem(head); !problem.empty()) return ErrorResponse(400, problem);
  if (head.count(http::field::content_encoding) > 0) return ErrorResponse(415, "compressed bodies are not accepted");
  if (head.count(http::field::authorization) > 1) return ErrorResponse(400, "one Authorization header is enough");
  if (head.count("x-api-key") > 1) return ErrorResponse(400, "one x-api-key header is enough");
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !iequals(expect, "100-continue")) return ErrorResponse(417, "this Expect is not supported");
  const size_t longest = BodyLimit(head, limits);
  if (DeclaredLength(head).value_or(0) > longest)
    return ErrorResponse(413, fmt::format("the body is larger than {} bytes", longest));
  return std::nullopt;
}

bool IsFolded(std::string_view head) {
  return head.find("\n ") != std::string_view::npos || head.find("\n\t") != std::string_view::npos;
}

bool HasControls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

size_t BodyLimit(const HttpHead& head, const HttpLimits& limits) {
  if (head.method() != http::verb::post) return limits.other_body_bytes;
  return limits.upload_bytes > 0 && PathOf(head) == kUploadPath ? limits.upload_bytes : limits.body_bytes;
}

HttpRequest RequestOf(const HttpHead& head, const HttpLimits& limits) {
  HttpRequest request;
  request.body_bytes = DeclaredLength(head).value_or(head.chunked() ? BodyLimit(head, limits) : 0);
  request.method = std::string(head.method_string());
  const std::string target(head.target());
  const size_t question = target.find('?');
  request.path = PathOf(head);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const char* name :
       {"authorization", "x-api-key", "x-request-id", "content-type", "host", "origin", "access-control-request-method",
        "access-control-request-headers", "traceparent", "anthropic-version"}) {
    const auto value = head[name];
    if (!value.empty()) request.headers[name] = std::string(value.substr(0, 4096));
  }
  std::string& id = request.headers["x-request-id"];
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || id.size() > 128) id.clear();
  return request;
}

HttpResponse ErrorResponse(int status, const std::string& message, const std::string& param, const std::string& code) {
  const char* type = "InternalServerError";
  if (status == 401 || status == 403)
    type = "AuthenticationError";
  else if (status == 404)
    type = "NotFoundError";
  else if (status == 410)
    type = "RequestAbortedError";
  else if (status == 429)
    type = "RateLimitError";
  else if (status == 503)
    type = "ServiceUnavailableError";
  else if (status < 500)
    type = "BadRequestError";
  const Json body = {{"error",
                      {{"message", message},
                       {"type", type},
                       {"param", param.empty() ? Json() : Json(param)},
                       {"code", code.empty() ? Json(status) : Json(code)}}}};
  return {status, "application/json", DumpJson(body), {}};
}

}  // namespace quire
