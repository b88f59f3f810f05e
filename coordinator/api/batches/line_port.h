#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>

#include "coordinator/http/http_types.h"

namespace quire {

/// The functions that a BatchRunner needs of the port that answers the requests of batches. Only the I/O thread uses
/// this class.
class LinePort {
 public:
  LinePort() = default;
  virtual ~LinePort() = default;
  LinePort(const LinePort&) = delete;
  LinePort& operator=(const LinePort&) = delete;

  /// Returns the refusal of a request, by its head alone. Returns nullopt after charging the memory for the request's
  /// body; then Handle may answer the request.
  virtual std::optional<HttpResponse> Admit(HttpRequest& head) = 0;
  virtual boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder) = 0;
  /// Returns the number of choices that wait or run, without the choices of batches.
  virtual int num_pending_of_others() const = 0;
  virtual bool draining() const = 0;
};

}  // namespace quire
