#include "coordinator/server/data_options.h"

#include <algorithm>
#include <ctime>

namespace quire {

namespace {

std::vector<std::string> NamesOfAdapters(const Topology::Model& model) {
  std::vector<std::string> names;
  for (const AdapterSetting& adapter : model.adapters) names.push_back(adapter.name);
  return names;
}

}  // namespace

DataPort::Options DataOptionsOf(const Topology& topology, const TextTools& text, Replicas& replicas) {
  int longest = INT32_MAX, blocks = INT32_MAX;
  for (int r = 0; r < replicas.size(); ++r) {
    longest = std::min(longest, replicas.at(r).deployment().max_model_len());
    blocks = std::min(blocks, replicas.at(r).view().usable_blocks);
  }
  const int running = topology.scheduler.max_running;
  return {topology.model.name,
          text.LimitsWith(longest, std::min(128, running)),
          topology.scheduler.max_waiting + running * replicas.size(),
          text.no_chat_reason,
          topology.seed,
          int64_t{blocks} * topology.cache.block_size,
          topology.key_limits,
          running * replicas.size(),
          topology.server.chat_page,
          text.answer_format,
          text.pooling,
          topology.model.aliases,
          NamesOfAdapters(topology.model)};
}

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
