#pragma once

#include <memory>

#include "comm/topology/topology.h"
#include "coordinator/api/admin/metrics_page.h"
#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/openai/data_port.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/server/text_tools.h"

namespace quire {

/// The data port's options, once the replicas are sized. Limits are the smallest over all replicas, so that every
/// replica can keep them.
DataPort::Options DataOptionsOf(const Topology& topology, const TextTools& text, Replicas& replicas);

/// The endpoint GET /metrics of the data port (metrics.on_data_port). `page` must outlive the port.
Routes<DataHandler>::Route MetricsRoute(MetricsPage& page);

/// Opens the store of files and batches; null without a directory. Throws Error when the directory cannot be used.
std::unique_ptr<BatchStore> OpenBatchStore(const Topology::Batches& batches);

}  // namespace quire
