#include "coordinator/api/admin/batch_report.h"

#include <utility>

#include "comm/base/json.h"

namespace quire {

namespace {

Json NullIfZero(int64_t seconds) { return seconds == 0 ? Json() : Json(seconds); }
Json NullIfEmpty(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json BatchesJson(const BatchNumbers& numbers) {
  Json batches = Json::object();
  for (const auto& [status, count] : numbers.batches) batches[status] = count;
  return {{"batches", std::move(batches)},
          {"running_requests", numbers.running_requests},
          {"completed_requests", numbers.completed_requests},
          {"failed_requests", numbers.failed_requests},
          {"files", numbers.files},
          {"bytes", numbers.bytes},
          {"most_bytes", numbers.max_bytes}};
}

std::string BatchListText(const BatchViews& views) {
  Json list = Json::array();
  for (const BatchView& batch : views.batches) {
    list.push_back({{"id", batch.id},
                    {"client", NullIfEmpty(batch.client)},
                    {"endpoint", batch.endpoint},
                    {"status", batch.status},
                    {"over", batch.over},
                    {"created_at", batch.created_at},
                    {"expires_at", batch.expires_at},
                    {"ended_at", NullIfZero(batch.ended_at)},
                    {"total", batch.total},
                    {"completed", batch.completed},
                    {"failed", batch.failed},
                    {"running", batch.running},
                    {"why_waiting", NullIfEmpty(batch.why_waiting)}});
  }
  const size_t not_listed = views.matching - views.batches.size();
  return DumpJson({{"matching", views.matching}, {"not_listed", not_listed}, {"batches", std::move(list)}});
}

}  // namespace quire
