#include "coordinator/api/access/authenticate.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>

#include "comm/base/error.h"
#include "coordinator/api/access/client_id.h"
#include "coordinator/http/network_turns.h"

namespace quire {

namespace {

constexpr size_t kMaxAddresses = 4096;

/// Returns the KEY of "Bearer KEY"; empty when the text has another form.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() <= kScheme.size() ||
      !boost::beast::iequals(authorization.substr(0, kScheme.size()), kScheme))
    return {};
  return authorization.substr(kScheme.size());
}

std::string WithoutPort(std::string host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  return host;
}

/// True for a Host header with which users of this machine reach the server. A page of another site may come from a
/// name that resolves to this machine (DNS rebinding). The requests of such a page have that name as the Host.
bool IsLocalName(const std::string& host) {
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;  // an IP address, not a name
  return boost::beast::iequals(host, "localhost") || (numeric && host.starts_with("127.")) || host == "[::1]";
}

/// True for a plausible value of Access-Control-Request-Headers.
bool IsFieldList(std::string_view text) {
  return text.size() <= 2048 && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == ',' || c == ' ';
         });
}

using AddressBlock = boost::asio::ip::address (*)(const boost::asio::ip::address&);

/// Returns the block of IP addresses that contains the request's address, as text. Without keys a client may name
/// itself anything, but it cannot choose its address.
std::string BlockOfPeer(const HttpRequest& request, AddressBlock block_of) {
  boost::system::error_code unknown;
  const auto address = boost::asio::ip::make_address(request.peer, unknown);
  return unknown ? request.peer : block_of(address).to_string();
}

}  // namespace

bool FailureLimit::Allow(const std::string& address, Clock::time_point now) {
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  if (second != second_) counts_.clear();
  second_ = second;
  const auto known = counts_.find(address);
  if (known != counts_.end()) return ++known->second <= per_second_;
  if (counts_.size() >= kMaxAddresses) return false;
  counts_.emplace(address, 1);
  return per_second_ >= 1;
}

Gate::Gate(Options options) : options_(std::move(options)) {
  if (has_keys()) keys_ = ApiKeys::Load(options_.key_file, options_.kind);
}

void Gate::Reload(const Gate& other) {
  ApiKeys keys = ApiKeys::Load(options_.key_file, options_.kind);
  CheckKeysDiffer(keys, other.keys());
  keys_ = std::move(keys);
}

std::string Gate::ClientOf(const std::string& key) const {
  if (!has_keys()) return ClientId("Bearer " + key);
  const ApiKey* known = keys_.Find(key);
  return known != nullptr ? known->name : "";
}

bool Gate::Knows(const std::string& client) const {
  return !has_keys() || std::ranges::any_of(keys_.keys(), [&](const ApiKey& key) {
    return key.may_post && key.name == client;
  });
}

HttpResponse Gate::Unauthorized(const HttpRequest& request, const char* reason) {
  if (!failures_.Allow(BlockOfPeer(request, NetworkOf), FailureLimit::Clock::now())) {
    HttpResponse response = ErrorResponse(429, "too many requests without a valid key");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  HttpResponse response = ErrorResponse(401, reason);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

bool Gate::IsAllowedOrigin(const std::string& origin) const {
  return std::ranges::any_of(options_.origins, [&](const std::string& allowed) {
    return allowed == "*" || boost::beast::iequals(allowed, origin);
  });
}

bool Gate::IsAllowedHost(const std::string& host) const {
  const std::string name = WithoutPort(host);
  return IsLocalName(name) || std::ranges::any_of(options_.hosts, [&](const std::string& allowed) {
           return boost::beast::iequals(allowed, name);
         });
}

std::optional<HttpResponse> Gate::RefuseForeign(const HttpRequest& request) const {
  const std::string host = request.Header("host"), origin = request.Header("origin");
  const bool named = !options_.hosts.empty();
  // Only HTTP/1.0 requests may lack a Host, and browsers never send HTTP/1.0 requests. So a request without a Host
  // comes from no web page.
  if (!host.empty() && (named || !(has_keys() || options_.any_host)) && !IsAllowedHost(host)) {
    return ErrorResponse(403, named ? "this name is not answered here (--allowed-hosts)"
                                    : "without keys only requests to localhost are answered");
  }
  const bool own = origin.empty() || origin == (options_.encrypted ? "https://" : "http://") + host;
  if (!has_keys() && !options_.any_host && !own && !IsAllowedOrigin(origin))
    return ErrorResponse(403, "requests from web pages of other sites are not answered");
  return std::nullopt;
}

std::optional<HttpResponse> Gate::AnswerBrowser(HttpRequest& request) const {
  if (options_.origins.empty()) return std::nullopt;
  auto& headers = request.answer_headers;
  headers.emplace_back("Vary", "Origin");
  const std::string origin = request.Header("origin");
  if (origin.empty() || !IsAllowedOrigin(origin) || RefuseForeign(request)) return std::nullopt;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, x-should-retry, Retry-After");
  const bool asks_first = request.method == "OPTIONS" && !request.Header("access-control-request-method").empty();
  if (!asks_first) return std::nullopt;
  HttpResponse answer{.status = 204};
  answer.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE");
  // A page of an allowed origin may send any header fields, because official clients add many fields of their own.
  const std::string fields = request.Header("access-control-request-headers");
  if (!fields.empty() && IsFieldList(fields)) answer.headers.emplace_back("Access-Control-Allow-Headers", fields);
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
  return answer;
}

std::optional<HttpResponse> Gate::Refuse(HttpRequest& request) {
  if (std::optional<HttpResponse> answer = AnswerBrowser(request)) return answer;
  if (operators_paths_.contains(request.path)) return RefuseOperator(request);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const std::string authorization = AuthorizationOf(request);
  if (!has_keys()) request.client = ClientId(authorization);
  request.share = BlockOfPeer(request, TurnOf);
  if (reads && options_.public_paths.contains(request.path)) return std::nullopt;
  if (std::optional<HttpResponse> refusal = RefuseForeign(request)) return refusal;
  if (!has_keys()) return RefuseForeignType(request);
  const std::string_view presented = BearerKey(authorization);
  if (presented.empty()) return Unauthorized(request, "a key is needed: Authorization: Bearer KEY");
  const ApiKey* key = keys_.Find(presented);
  if (key == nullptr) return Unauthorized(request, "the key is not known here");
  request.client = request.share = key->name;
  request.has_key = true;
  if (reads ? key->may_read : key->may_post) return std::nullopt;
  const char* scope = reads ? "read" : PostScope(options_.kind);
  return ErrorResponse(403, fmt::format("the key of {} lacks the scope {}", key->name, scope));
}

void Gate::LeaveToOperators(std::set<std::string> paths, Gate& operators) {
  operators_paths_ = std::move(paths);
  operators_ = &operators;
}

std::optional<HttpResponse> Gate::RefuseOperator(HttpRequest& request) {
  request.share = BlockOfPeer(request, TurnOf);
  if (std::optional<HttpResponse> refusal = RefuseForeign(request)) return refusal;
  if (operators_->has_keys()) return operators_->Refuse(request);
  return ErrorResponse(
      403, "this is for operators: name a file of admin tokens (--admin-token-file), or use the admin port");
}

/// Returns the Authorization header. Where API keys are accepted and the header is missing, returns "Bearer KEY" with
/// the key in x-api-key, as clients of the Messages API send it; "" if both headers are missing.
std::string Gate::AuthorizationOf(const HttpRequest& request) const {
  std::string authorization = request.Header("authorization");
  if (!authorization.empty() || options_.kind != KeyKind::kApi) return authorization;
  const std::string key = request.Header("x-api-key");
  return key.empty() ? "" : "Bearer " + key;
}

HttpService Gate::Guard(HttpService service) {
  auto admit = [this, next = std::move(service.admit)](HttpRequest& request) {
    std::optional<HttpResponse> refusal = Refuse(request);
    return refusal ? refusal : next(request);
  };
  service.admit = std::move(admit);
  return service;
}

std::optional<HttpResponse> RefuseForeignType(const HttpRequest& request) {
  const std::string value = request.Header("content-type");
  std::string_view type = std::string_view(value).substr(0, value.find(';'));  // the media type without parameters
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  if (request.method != "POST" || value.empty() || boost::beast::iequals(type, "application/json")) return std::nullopt;
  // A form is accepted only without an Origin or with an Authorization header. A page of another site can send neither:
  // browsers add an Origin to each form, and ask the server (preflight) before such a page may add an Authorization
  // header.
  const bool form = request.path == kUploadPath && boost::beast::iequals(type, "multipart/form-data");
  if (form && (request.Header("origin").empty() || !request.Header("authorization").empty())) return std::nullopt;
  return ErrorResponse(415, "the Content-Type must be application/json");
}

void CheckKeysDiffer(const ApiKeys& some, const ApiKeys& others) {
  for (const ApiKey& key : some.keys()) {
    for (const ApiKey& other : others.keys()) {
      if (key.sha256 == other.sha256)
        Fail("a key of {} and one of {} for the other port are the same; make another (quire keygen)", key.name,
             other.name);
    }
  }
}

}  // namespace quire
