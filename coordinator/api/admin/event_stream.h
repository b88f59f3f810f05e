#pragma once

#include <boost/asio/awaitable.hpp>

#include "comm/base/json_fwd.h"
#include "coordinator/api/http/http_types.h"
#include "coordinator/cluster/group/event_feed.h"

namespace quire {

Json EventJson(const ServerEvent& event);

/// /admin/events: server-sent events from a feed, each with its number as id and its kind as event, for as long as the
/// client stays. A client that reads slowly is told how many it lost; nobody waits for it. On the I/O thread.
class EventStream {
 public:
  static constexpr int kMostReaders = 16;

  explicit EventStream(const EventFeed& feed) : feed_(feed) {}

  /// Everything after the event of this number that is still known, and then what comes. Throws ApiError 429 when there
  /// are too many readers.
  boost::asio::awaitable<void> Serve(uint64_t since, HttpResponder& responder);

 private:
  std::string NextText(uint64_t& read, uint64_t& left_out_told) const;

  const EventFeed& feed_;
  int num_readers_ = 0;
};

}  // namespace quire
