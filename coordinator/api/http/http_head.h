#pragma once

#include <boost/beast/http.hpp>
#include <optional>

#include "coordinator/api/http/http_types.h"

namespace quire {

using HttpHead = boost::beast::http::request<boost::beast::http::string_body>;
using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

/// What the parser itself bounds. It counts chunked bodies, too.
void SetLimits(HttpParser& parser, const HttpLimits& limits);

/// Why a parsed head is refused, or nothing. Beast's parser lets pass what proxies may read differently (transfer
/// codings it does not know beside a length, several hosts, HTTP/1.0 with chunks, ...); everything of that kind is
/// answered with 400 and a closed connection, so that no request can hide inside another.
std::optional<HttpResponse> RefuseHead(const HttpHead& head, const HttpLimits& limits);

/// The longest body that is read after this head.
size_t BodyLimit(const HttpHead& head, const HttpLimits& limits);

/// True when a line of the raw head goes on in the next one (obs-fold): the parser joins such lines, others may not.
bool IsFolded(std::string_view head);

/// What handlers see of a head that was not refused; the body is still to come.
HttpRequest RequestOf(const HttpHead& head, const HttpLimits& limits);

}  // namespace quire
