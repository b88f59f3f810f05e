#include "coordinator/kv_disk/kept_pins.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/kv_disk/unix_now.h"

namespace quire {

KeptPins::KeptPins(KvFolder& folder, const BlockSeal& seal) : files_(folder, seal) {
  for (StoredPin& pin : files_.List(UnixNow())) pins_.emplace(pin.name, std::move(pin));
}

KeptPins::~KeptPins() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (writer_.joinable()) writer_.join();
}

std::vector<StoredPin> KeptPins::all() const {
  const double now = UnixNow();
  const std::lock_guard lock(mutex_);
  std::vector<StoredPin> pins;
  for (const auto& [name, pin] : pins_) {
    if (pin.expires_seconds > now) pins.push_back(pin);
  }
  return pins;
}

bool KeptPins::Keep(StoredPin pin) {
  const double now = UnixNow();
  {
    const std::lock_guard lock(mutex_);
    for (auto each = pins_.begin(); each != pins_.end();) {
      const auto next = std::next(each);
      if (each->second.expires_seconds <= now) {
        changed_.push_back(each->first);
        pins_.erase(each);
      }
      each = next;
    }
    if (pins_.size() >= StoredPins::kMost && !pins_.contains(pin.name)) return false;
    changed_.push_back(pin.name);
    pins_[pin.name] = std::move(pin);
    if (!writer_.joinable()) writer_ = std::thread([this] { WriteAll(); });
  }
  wake_.notify_all();
  return true;
}

void KeptPins::Drop(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    if (pins_.erase(name) == 0) return;
    changed_.push_back(name);
    if (!writer_.joinable()) writer_ = std::thread([this] { WriteAll(); });
  }
  wake_.notify_all();
}

void KeptPins::WriteAll() {
  for (;;) {
    std::string name;
    std::optional<StoredPin> pin;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !changed_.empty(); });
      if (changed_.empty()) return;
      name = changed_.back();
      std::erase(changed_, name);
      if (const auto found = pins_.find(name); found != pins_.end()) pin = found->second;
    }
    try {
      pin ? files_.Write(*pin) : files_.Remove(name);
    } catch (const Error& error) {
      spdlog::warn("KV on disk: the pin {} is not kept over a restart: {}", WithoutControls(name), error.what());
    }
  }
}

}  // namespace quire
