// Input: an HTTP request, which goes through the parser and the checks of a connection. An accepted request must have
// unambiguous framing.
#include "coordinator/http/http_head.h"

#include <algorithm>

#include "comm/base/error.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr HttpLimits kLimits = {.head_bytes = 2048, .target_bytes = 64, .header_fields = 20, .body_bytes = 256};

/// Feeds the parser in pieces of `piece` bytes until it has the whole request (`head_only`: the head). Returns the
/// number of bytes that it took. `error` is set when the parser failed or needs more bytes.
size_t Feed(http::basic_parser<true>& parser, std::string_view bytes, size_t piece, bool head_only,
            boost::beast::error_code& error) {
  size_t taken = 0, shown = 0;
  while (!(head_only ? parser.is_header_done() : parser.is_done())) {
    if (shown == bytes.size()) {
      error = http::error::need_more;
      break;
    }
    shown = std::min(bytes.size(), std::max(shown, taken) + piece);
    error = {};
    taken += parser.put(asio::buffer(bytes.data() + taken, shown - taken), error);
    if (error && error != http::error::need_more) break;
  }
  return taken;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Aborts when the raw head is ambiguous to a proxy: when it has more than one Content-Length and Transfer-Encoding
/// together, or several hosts.
void CheckFraming(std::string head) {
  std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t lengths = Count(head, "\ncontent-length:"), codings = Count(head, "\ntransfer-encoding:");
  QUIRE_CHECK(lengths + codings <= 1, "{} lengths and {} codings", lengths, codings);
  QUIRE_CHECK(Count(head, "\nhost:") <= 1, "several hosts");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const size_t piece = size_t{bytes.Byte()} + 1;
  const std::string_view text = bytes.Rest();
  HttpParser parser;
  SetLimits(parser, kLimits);
  boost::beast::error_code error;
  const size_t head_bytes = Feed(parser, text, piece, true, error);
  if (!parser.is_header_done()) return 0;
  if (RefuseHead(parser.get(), kLimits) || IsFolded(text.substr(0, head_bytes))) return 0;
  CheckFraming(std::string(text.substr(0, head_bytes)));
  parser.eager(true);
  Feed(parser, text.substr(head_bytes), piece, false, error);
  if (!parser.is_done()) return 0;
  HttpRequest request = RequestOf(parser.get(), kLimits);
  request.body = std::move(parser.get().body());
  QUIRE_CHECK(request.body.size() <= request.body_bytes, "{} bytes of {}", request.body.size(), request.body_bytes);
  QUIRE_CHECK(request.body.size() <= kLimits.body_bytes, "a body of {} bytes", request.body.size());
  QUIRE_CHECK(request.path.starts_with('/'), "path {}", request.path);
  return 0;
}
