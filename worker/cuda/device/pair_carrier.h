#pragma once

#include "comm/collective/device_carrier.h"
#include "comm/collective/device_pair.h"

namespace quire {

/// Moves KV blocks between this rank's device and devices of ranks in other groups. The bytes to move are packed into a
/// buffer, sent by a DevicePair, and unpacked at the destination. Each link has a thread and a stream of its own, and
/// `piece_bytes` (or one block, if that is more) of device memory, so neither steps nor other links wait for it.
class PairCarrier final : public DeviceCarrier {
 public:
  /// `device`: the device ordinal.
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
