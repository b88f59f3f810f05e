#pragma once

#include "comm/collective/device_carrier.h"
#include "comm/collective/device_pair.h"

namespace quire {

/// KV blocks between this rank's device and those of other groups' ranks: what goes of them is packed into one piece
/// of memory, sent by a DevicePair, and put in its places there. Every link has a thread and a stream of its own, so
/// that neither steps nor other links wait for it, and `piece_bytes` of device memory, or a block's if that is more.
class PairCarrier final : public DeviceCarrier {
 public:
  /// `device`: its ordinal.
  PairCarrier(int device, DevicePairing pairing, int64_t piece_bytes = 32 << 20)
      : device_(device), pairing_(std::move(pairing)), piece_bytes_(piece_bytes) {}

  std::string NewMeeting() override { return pairing_.new_meeting(); }
  std::unique_ptr<DeviceLink> Open(const std::string& meeting, bool gives) override;

 private:
  const int device_;
  const DevicePairing pairing_;
  const int64_t piece_bytes_;
};

}  // namespace quire
