#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "coordinator/api/access/api_keys.h"
#include "coordinator/api/http/http_types.h"

namespace quire {

/// How many wrong keys an address, or a network that one host may have whole, may present each second before it is told
/// to slow down. Bounded memory.
class FailureLimit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit FailureLimit(int per_second = 20) : per_second_(per_second) {}

  /// Counts one; false: that is too many.
  bool Allow(const std::string& address, Clock::time_point now);

 private:
  int per_second_;
  int64_t second_ = 0;
  std::map<std::string, int> counts_;  // of this second
};

/// Stands before the routes of one port: nothing behind it sees a request that it refused. With keys, every path but
/// the public ones needs one. Without, the port is for this machine's users alone, and what a web page of elsewhere
/// makes their browser send is refused: a foreign Host (DNS rebinding) or Origin. Belongs to the I/O thread.
class Gate {
 public:
  struct Options {
    std::string key_file;                   // empty: no keys
    std::set<std::string> public_paths;     // exact; GET and HEAD only
    bool any_host = false;                  // without keys: answer requests under whatever name
    std::vector<std::string> origins = {};  // of web pages that may ask, "https://chat.example"; "*": all
    std::vector<std::string> hosts = {};  // names that are answered beside localhost; empty: any, where there are keys
    KeyKind kind = KeyKind::kApi;         // of the file's lines
    bool encrypted = false;               // the port speaks TLS: its own pages come from https
  };
  /// Throws Error when the key file is not as it must be.
  explicit Gate(Options options);

  /// Nothing, and the request's client is set; or the refusal.
  std::optional<HttpResponse> Refuse(HttpRequest& request);
  /// Who comes with this key: its name where keys are needed, a digest of it otherwise.
  std::string ClientOf(const std::string& key) const;
  /// Whether this client may come to generate: where keys are needed, one of them has its name.
  bool Knows(const std::string& client) const;
  /// Takes the file's new keys; a file that cannot be read or parsed changes nothing and throws Error.
  /// So does one with a key that opens the `other` port.
  void Reload(const Gate& other);

  bool has_keys() const { return !options_.key_file.empty(); }
  const ApiKeys& keys() const { return keys_; }

  /// The same service behind this gate, which must outlive it: a refused request's body is never read.
  HttpService Guard(HttpService service);

 private:
  /// Answers a browser's question whether a page may send what it wants to, and marks the answers that a page may read.
  std::optional<HttpResponse> AnswerBrowser(HttpRequest& request) const;
  std::string AuthorizationOf(const HttpRequest& request) const;
  bool IsAllowedOrigin(const std::string& origin) const;
  bool IsAllowedHost(const std::string& host) const;
  std::optional<HttpResponse> RefuseForeign(const HttpRequest& request) const;
  HttpResponse Unauthorized(const HttpRequest& request, const char* reason);

  Options options_;
  ApiKeys keys_;
  FailureLimit failures_;
};

/// 415 for a body that a page of another site can post without asking: text, forms. JSON it cannot. A body that says
/// nothing of its type is taken; browsers say where it comes from.
std::optional<HttpResponse> RefuseForeignType(const HttpRequest& request);

/// Data keys never open the admin port, nor the other way round: throws Error when a key is on both sides.
void CheckKeysDiffer(const ApiKeys& some, const ApiKeys& others);

}  // namespace quire
