#include "coordinator/api/authenticate.h"

#include <boost/beast/core/string.hpp>

#include "comm/error.h"
#include "coordinator/api/generation.h"

namespace quire {

namespace {

constexpr size_t kMaxAddresses = 4096;

/// The key of "Bearer KEY"; empty when there is none.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() <= kScheme.size() ||
      !boost::beast::iequals(authorization.substr(0, kScheme.size()), kScheme))
    return {};
  return authorization.substr(kScheme.size());
}

/// Names under which this machine's own users come; a page of elsewhere comes under its site's.
bool IsLocalName(std::string host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;  // no name, whoever owns it
  return boost::beast::iequals(host, "localhost") || (numeric && host.starts_with("127.")) || host == "[::1]";
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
  if (has_keys()) Reload();
}

void Gate::Reload() { keys_ = ApiKeys::Load(options_.key_file); }

std::string Gate::ClientOf(const std::string& key) const {
  if (!has_keys()) return ClientId("Bearer " + key);
  const ApiKey* known = keys_.Find(key);
  return known != nullptr ? known->name : "";
}

HttpResponse Gate::Unauthorized(const HttpRequest& request, const char* reason) {
  if (!failures_.Allow(request.peer, FailureLimit::Clock::now())) {
    HttpResponse response = ErrorResponse(429, "too many requests without a valid key");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  HttpResponse response = ErrorResponse(401, reason);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::optional<HttpResponse> Gate::RefuseForeign(const HttpRequest& request) const {
  const std::string host = request.Header("host"), origin = request.Header("origin");
  // HTTP/1.0 may come without a Host; browsers never do.
  if (!host.empty() && !IsLocalName(host))
    return ErrorResponse(403, "without keys only requests to localhost are answered");
  if (!origin.empty() && origin != "http://" + host)
    return ErrorResponse(403, "requests from web pages of other sites are not answered");
  return std::nullopt;
}

std::optional<HttpResponse> Gate::Refuse(HttpRequest& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool is_public = reads && options_.public_paths.contains(request.path);
  const std::string authorization = request.Header("authorization");
  if (!has_keys()) {
    request.client = ClientId(authorization);
    return is_public || options_.any_host ? std::nullopt : RefuseForeign(request);
  }
  if (is_public) return std::nullopt;
  const std::string_view presented = BearerKey(authorization);
  if (presented.empty()) return Unauthorized(request, "a key is needed: Authorization: Bearer KEY");
  const ApiKey* key = keys_.Find(presented);
  if (key == nullptr) return Unauthorized(request, "the key is not known here");
  if (reads ? !key->may_read : !key->may_generate) return ErrorResponse(403, "this key is not for that");
  request.client = key->name;
  return std::nullopt;
}

HttpService Gate::Guard(HttpService service) {
  auto admit = [this, next = std::move(service.admit)](HttpRequest& request) {
    std::optional<HttpResponse> refusal = Refuse(request);
    return refusal ? refusal : next(request);
  };
  return {std::move(admit), std::move(service.handle)};
}

void CheckKeysDiffer(const Gate& data, const Gate& admin) {
  for (const ApiKey& key : data.keys().keys()) {
    for (const ApiKey& token : admin.keys().keys()) {
      if (key.sha256 == token.sha256)
        Fail("the API key of {} and the admin token of {} are the same; make another (quire keygen)", key.name,
             token.name);
    }
  }
}

}  // namespace quire
