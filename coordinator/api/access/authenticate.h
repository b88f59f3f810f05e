#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "coordinator/api/access/api_keys.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// Limits how many requests without a valid key one network (NetworkOf) may send per second. Memory is bounded: after
/// 4,096 networks in a second, further networks are refused.
class FailureLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit FailureLimit(int per_second = 20) : per_second_(per_second) {}

  /// Counts one request without a valid key from `address`, a network as text. Returns false when this network has sent
  /// too many such requests in this second.
  bool Allow(const std::string& address, Clock::time_point now);

 private:
  int per_second_;
  int64_t second_ = 0;
  std::map<std::string, int> counts_;  // network -> requests without a valid key in this second
};

/// Authenticates the requests of one port. A refused request is not passed on. With keys, every path except the public
/// ones needs a key. Without keys, the port serves only users of this machine, unless Options allow other hosts. Such a
/// port also refuses requests that a page of another site makes a browser send: it recognises them by the Host (DNS
/// rebinding) or Origin header.
class Gate {
 public:
  struct Options {
    std::string key_file;                   // empty: no keys
    std::set<std::string> public_paths;     // exact; GET and HEAD only
    bool any_host = false;                  // a server without keys accepts any Host header
    std::vector<std::string> origins = {};  // web pages that may send requests ("https://chat.example"); "*": all
    // Accepted Host names besides localhost. An empty list accepts any name if keys are needed or any_host is set.
    std::vector<std::string> hosts = {};
    KeyKind kind = KeyKind::kApi;         // kind of the lines in key_file
    bool encrypted = false;               // the port speaks TLS, so its own pages have an https origin
  };
  /// Throws Error when the key file has a problem (ApiKeys::Load).
  explicit Gate(Options options);

  /// Decides whether the request may be served. Returns the refusal; nullopt when the request is admitted. Sets the
  /// request's `client` (the client's name) and `share` (the key or network that pays for the request's work).
  std::optional<HttpResponse> Refuse(HttpRequest& request);
  /// Returns the client's name for this key: the key's name where keys are needed, otherwise a digest; empty when the
  /// key is unknown.
  std::string ClientOf(const std::string& key) const;
  /// True if this client may send generating requests: no keys are needed, or a key that allows POST has the client's
  /// name.
  bool Knows(const std::string& client) const;
  /// Reads the key file again. Throws Error, without a change of the keys, when the file cannot be read or parsed, or
  /// when one of its keys also opens the `other` port.
  void Reload(const Gate& other);

  /// From now on, requests to these paths need a key of the gate `operators`. If that gate has no keys, such requests
  /// are refused. `operators` must outlive this gate.
  void LeaveToOperators(std::set<std::string> paths, Gate& operators);

  bool has_keys() const { return !options_.key_file.empty(); }
  const ApiKeys& keys() const { return keys_; }

  /// Returns a service that passes admitted requests to `service`, and never reads the body of a refused request. The
  /// gate must outlive the returned service.
  HttpService Guard(HttpService service);

 private:
  /// Answers a browser's preflight request (CORS), and sets the CORS headers of answers that a page may read.
  std::optional<HttpResponse> AnswerBrowser(HttpRequest& request) const;
  std::string AuthorizationOf(const HttpRequest& request) const;
  bool IsAllowedOrigin(const std::string& origin) const;
  bool IsAllowedHost(const std::string& host) const;
  std::optional<HttpResponse> RefuseForeign(const HttpRequest& request) const;
  std::optional<HttpResponse> RefuseOperator(HttpRequest& request);
  HttpResponse Unauthorized(const HttpRequest& request, const char* reason);

  Options options_;
  ApiKeys keys_;
  FailureLimit failures_;
  std::set<std::string> operators_paths_;
  Gate* operators_ = nullptr;
};

/// Returns 415 for a POST whose Content-Type is set and not JSON, except for an upload form that no foreign page can
/// send. A foreign page can post text and forms without a preflight, but not JSON. A body without a Content-Type is
/// accepted: a browser sends such a body only with an Origin header, which Gate checks.
std::optional<HttpResponse> RefuseForeignType(const HttpRequest& request);

/// Throws Error when a key is in both lists: no key may open both the data port and the admin port.
void CheckKeysDiffer(const ApiKeys& some, const ApiKeys& others);

}  // namespace quire
