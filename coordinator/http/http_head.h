#pragma once

#include <boost/beast/http.hpp>
#include <optional>

#include "coordinator/http/http_types.h"

namespace quire {

using HttpHead = boost::beast::http::request<boost::beast::http::string_body>;
using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

/// Sets the parser's own bounds for heads and bodies, chunked bodies included.
void SetLimits(HttpParser& parser, const HttpLimits& limits);

/// Returns the refusal of a parsed head; nullopt when the head is accepted. Refuses heads that Beast's parser accepts
/// but that a proxy may read differently: transfer codings other than `chunked`, `chunked` beside a length, several
/// hosts, HTTP/1.0 with chunks. Such heads get status 400 and a closed connection, so that no request can hide inside
/// another (request smuggling). Also refuses heads that exceed a limit or ask for something that the server does not
/// support.
std::optional<HttpResponse> RefuseHead(const HttpHead& head, const HttpLimits& limits);

/// Returns the most body bytes that are read after this head.
size_t BodyLimit(const HttpHead& head, const HttpLimits& limits);

/// True when a header line continues on the next line (obs-fold). Beast joins such lines, but a proxy might read them
/// in another way.
bool IsFolded(std::string_view head);

/// True when the text has control characters other than tabs. Beast takes a bare line feed for a part of a chunk's
/// extension, but a proxy might take it for the extension's end.
bool HasControls(std::string_view text);

/// Makes a random id for a request without x-request-id.
std::string NewRequestId();

/// Returns the request as handlers see it, made from a head that was not refused. The body is still empty.
HttpRequest RequestOf(const HttpHead& head, const HttpLimits& limits);

}  // namespace quire
