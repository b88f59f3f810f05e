#pragma once

#include "coordinator/api/openai/data_port.h"

namespace quire {

/// Counts a pending call against the limits on choices: as one choice from the call's arrival on, and as its real
/// number of choices once the body is read. The count ends when the generation ends, even if the client is still
/// reading.
class DataPort::Slot {
 public:
  Slot(DataPort& api, ModelDesk& desk, const HttpRequest& request)
      : api_(api), background_(request.background), places_(desk.places, request.client) {
    Widen(1);
  }
  ~Slot() {
    Release();
    --api_.num_sending_;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void Widen(int choices) {
    if (background_) api_.num_background_ += choices - places_.count();
    places_.Resize(choices);
  }
  void Release() {
    if (places_.count() == 0) return;
    Widen(0);
    ++api_.num_sending_;
  }

 private:
  DataPort& api_;
  const bool background_;
  PendingPlaces::Taken places_;
};

}  // namespace quire
