#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/batches/records.h"
#include "coordinator/api/requests/list_page.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/http_types.h"

namespace quire {

/// Returns a record as a list shows it. A list shows only the first fault of a batch; GET /v1/batches/ID shows all.
inline std::string Listed(const FileRecord& file) { return DumpJson(file.ToPublic()); }
inline std::string Listed(const BatchRecord& batch) { return DumpJson(batch.ToPublic(1)); }

/// Returns a page of files or batches as JSON text. records: the oldest first. Throws ApiError 400 when no record has
/// the id `after`.
template <class Record>
std::string PageOfRecords(const std::vector<const Record*>& records, const PageQuery& query) {
  return ListPage(records, query, "nothing is kept that has", [](const Record& record) { return Listed(record); });
}

/// Sends JSON text. The text's bytes count as memory of the request until the text is sent. Throws ApiError 429 when
/// the memory for requests is full.
inline boost::asio::awaitable<void> SendCharged(HttpRequest& request, HttpResponder& responder, std::string text) {
  if (request.memory.Resize(static_cast<int64_t>(text.size())) != ByteBudget::Verdict::kTaken)
    throw ApiError(429, "the server's memory for requests is taken; try again later");
  HttpResponse response;
  response.body = std::move(text);
  co_await responder.Send(std::move(response));
}

}  // namespace quire
