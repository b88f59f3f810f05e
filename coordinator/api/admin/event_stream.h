#pragma once

#include <boost/asio/awaitable.hpp>

#include "comm/base/json_fwd.h"
#include "coordinator/cluster/group/event_feed.h"
#include "coordinator/http/http_types.h"

namespace quire {

Json EventJson(const ServerEvent& event);

/// The stream of /admin/events: server-sent events from an EventFeed, until the client leaves. The field `id` has the
/// event's number, and the field `event` has its kind. The server waits for no client: a slow client is told how many
/// events were dropped for it. Only the I/O thread uses this class.
class EventStream {
 public:
  static constexpr int kMostReaders = 16;

  explicit EventStream(const EventFeed& feed) : feed_(feed) {}

  /// Sends the events after number `since` that the feed still has, and then all later events. Throws ApiError 429
  /// beyond kMostReaders readers.
  boost::asio::awaitable<void> Serve(uint64_t since, HttpResponder& responder);

 private:
  std::string NextText(uint64_t& read, uint64_t& left_out_told) const;

  const EventFeed& feed_;
  int num_readers_ = 0;
};

}  // namespace quire
