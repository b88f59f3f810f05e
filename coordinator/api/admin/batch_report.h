#pragma once

#include <string>

#include "comm/base/json_fwd.h"
#include "coordinator/metrics/batch_numbers.h"
#include "coordinator/metrics/batch_view.h"

namespace quire {

/// Returns the numbers of files and batches, for /admin/status.
Json BatchesJson(const BatchNumbers& numbers);

/// Returns the text of /admin/batches.
std::string BatchListText(const BatchViews& views);

}  // namespace quire
