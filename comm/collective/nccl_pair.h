#pragma once

#include "comm/collective/device_pair.h"

namespace quire {

/// Connects pairs of devices by NCCL, through NVLink, PCIe or the network, whichever connects them. Data between hosts
/// is not encrypted.
DevicePairing NcclPairing();

}  // namespace quire
