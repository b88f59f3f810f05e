#include "coordinator/server/data_options.h"

#include <ctime>

namespace quire {

Routes<DataHandler>::Route MetricsRoute(MetricsPage& page) {
  return {"GET", "/metrics", [&page](HttpRequest&, HttpResponder& responder) -> boost::asio::awaitable<void> {
            HttpResponse recent = co_await page.Recent();
            co_await responder.Send(std::move(recent));
          }};
}

std::unique_ptr<BatchStore> OpenBatchStore(const Topology::Batches& batches) {
  if (batches.dir.empty()) return nullptr;
  StoreLimits limits;
  limits.bytes = batches.max_bytes;
  return std::make_unique<BatchStore>(batches.dir, limits, [] { return static_cast<int64_t>(std::time(nullptr)); });
}

}  // namespace quire
