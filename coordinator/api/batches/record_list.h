#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/batches/records.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// A record as a list shows it. A batch tells its first fault there; GET /v1/batches/ID tells all of them.
inline std::string Listed(const FileRecord& file) { return DumpJson(file.ToPublic()); }
inline std::string Listed(const BatchRecord& batch) { return DumpJson(batch.ToPublic(1)); }

/// A page of records in OpenAI's form, as JSON text. records: the oldest first. after: the id of the last one of the
/// page before; empty: the first page. Throws ApiError when no record has this id.
template <class Record>
std::string PageOfRecords(std::vector<Record> records, const std::string& after, size_t limit, bool oldest_first) {
  if (!oldest_first) std::ranges::reverse(records);
  auto begin = records.begin();
  if (!after.empty()) {
    begin = std::ranges::find(records, after, &Record::id);
    if (begin == records.end())
      throw ApiError(400, "nothing with the id " + after.substr(0, 100) + " is kept", "after");
    ++begin;
  }
  const auto end = begin + std::min(static_cast<ptrdiff_t>(limit), records.end() - begin);
  const Json first = begin == end ? Json() : Json(begin->id), last = begin == end ? Json() : Json((end - 1)->id);
  std::string page = R"({"object":"list","first_id":)" + DumpJson(first) + R"(,"last_id":)" + DumpJson(last) +
                     R"(,"has_more":)" + (end != records.end() ? "true" : "false") + R"(,"data":[)";
  for (auto it = begin; it != end; ++it) {
    if (it != begin) page += ',';
    page += Listed(*it);
  }
  page += "]}";
  return page;
}

/// Sends JSON text that is charged to its request meanwhile. Throws ApiError 429 when the memory is taken.
inline boost::asio::awaitable<void> SendCharged(HttpRequest& request, HttpResponder& responder, std::string text) {
  if (request.memory.Resize(static_cast<int64_t>(text.size())) != ByteBudget::Verdict::kTaken)
    throw ApiError(429, "the server's memory for requests is taken; try again later");
  HttpResponse response;
  response.body = std::move(text);
  co_await responder.Send(std::move(response));
}

}  // namespace quire
