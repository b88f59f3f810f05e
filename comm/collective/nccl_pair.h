#pragma once

#include "comm/collective/device_pair.h"

namespace quire {

/// Pairs of devices by NCCL: through NVLink, PCIe or the network, whatever there is between them. Between hosts in
/// clear text.
DevicePairing NcclPairing();

}  // namespace quire
