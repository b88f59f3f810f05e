#pragma once

#include "coordinator/api/openai/data_port.h"

namespace quire {

/// Holds a call's places while it is pending: one from its arrival, one for each choice once those are known. They are
/// given back when the generation ends, whatever time its client takes to read.
class DataPort::Slot {
 public:
  Slot(DataPort& api, const HttpRequest& request)
      : api_(api), background_(request.background), places_(api.places_, request.client) {
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
