#pragma once

#include <memory>

#include "comm/topology/topology.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/http/routes.h"

namespace quire {

/// Returns the route GET /metrics of the data port (metrics.on_data_port). `page` must outlive the port.
Routes<DataHandler>::Route MetricsRoute(MetricsPage& page);

/// Opens the store of files and batches; null without a directory. Throws Error when the directory cannot be used.
std::unique_ptr<BatchStore> OpenBatchStore(const Topology::Batches& batches);

}  // namespace quire
