#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/http/byte_budget.h"
#include "coordinator/http/request_record.h"

namespace quire {

/// A request whose head passed RefuseHead(). Handlers run when the whole body has arrived.
struct HttpRequest {
  std::string method;
  std::string path;                            // path of the URL without the query
  std::string query;                           // part of the URL after the question mark, not decoded
  std::map<std::string, std::string> headers;  // names in lower case; only those that an API reads
  std::string body;
  size_t body_bytes = 0;     // announced length of the body; for a chunked body, the most bytes that are accepted
  ByteBudget::Lease memory;  // memory that the port's `admit` charged for the request; a handler may take it over
  std::string peer;          // IP address of the client
  std::string client;        // name from authenticate.h, such as a key's; empty: an unnamed client
  std::string share;         // the key or network that is charged for processor time
  std::vector<std::pair<std::string, std::string>> answer_headers;  // headers of every answer to this request
  bool has_key = false;     // `share` names a key that the port knows
  bool background = false;  // a batch's request, which waits while other requests exist
  /// Receives the body piece by piece; `body` then stays empty. The port's `admit` may set this. Must not throw.
  std::function<boost::asio::awaitable<void>(std::string piece)> take_body = {};
  std::string Header(const std::string& name) const { return headers.contains(name) ? headers.at(name) : ""; }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<size_t> length = {};  // Content-Length when the body is not made (HEAD)
  std::string_view fixed = {};        // a body that outlives all connections and is not copied; then `body` is empty
};

/// A handler answers with Send(), or with BeginStream() or BeginPieces(), then Write() for each part, then EndStream().
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  /// Sends a whole answer. If a stream or pieces have begun, ends the connection instead.
  virtual boost::asio::awaitable<void> Send(HttpResponse response) = 0;
  /// Begins a server-sent event stream.
  virtual boost::asio::awaitable<void> BeginStream() = 0;
  /// Begins an answer of unknown length: Write and EndStream follow, as for a stream.
  virtual boost::asio::awaitable<void> BeginPieces(std::string content_type = "application/json") = 0;
  /// Sends text unchanged. Does nothing when the client has gone.
  virtual boost::asio::awaitable<void> Write(std::string text) = 0;
  virtual boost::asio::awaitable<void> EndStream() = 0;
  /// Frees the body and the headers. Call it when the handler has read them. A stream may last for minutes afterwards.
  virtual void ForgetContent() {}
  /// True once the client has left or has read too slowly, or the server has ended the connection.
  virtual bool gone() const = 0;
  /// True while a write waits for the client to read.
  virtual bool stalled() const { return false; }
  /// Called on the I/O thread when gone() becomes true, so that work for the client can stop.
  std::function<void()> on_gone;
  /// The log record of this request; handlers fill in the numbers of tokens.
  RequestRecord record;
};

inline constexpr std::string_view kUploadPath = "/v1/files";  // the path whose bodies may be files

/// The functions that serve the requests of one port.
struct HttpService {
  /// Called with the head alone. Returns a refusal, or nullopt: then the body is read. May set fields of the request.
  std::function<std::optional<HttpResponse>(HttpRequest&)> admit;
  std::function<boost::asio::awaitable<void>(HttpRequest&, HttpResponder&)> handle;
  /// Called after every request, also a refused one; may be empty.
  std::function<void(const RequestRecord&)> answered = {};
  /// Called with an error answer, which it may rewrite into the form that clients of this path expect. May be empty.
  std::function<void(const RequestRecord&, HttpResponse&)> restate = {};
};

/// Bounds of every connection (docs/limits.md).
struct HttpLimits {
  size_t head_bytes = 16 << 10;
  size_t target_bytes = 8 << 10;
  size_t header_fields = 100;
  size_t body_bytes = Topology::Limits::kLargestBody;  // largest body of a POST request
  size_t other_body_bytes = 4 << 10;                   // largest body with methods that need no body
  size_t upload_bytes = 0;                             // largest body of POST to kUploadPath; 0: body_bytes
  Topology::Limits chosen{};                           // the operator's limits of times and connections
  bool last_requests = false;                          // connections end with the answer to the next request
};

/// Returns an error in OpenAI's form, {"error": {...}}. `status` decides "type", and also "code" if `code` is empty.
HttpResponse ErrorResponse(int status, const std::string& message, const std::string& param = "",
                           const std::string& code = "");

}  // namespace quire
