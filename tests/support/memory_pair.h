#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/device_pair.h"

namespace quire::test {

/// Makes device pairs within this process. Its "devices" use host memory and finish work when it is queued.
class MemoryPairs {
 public:
  /// State that tests read and change.
  std::atomic<int> met{0};
  std::atomic<bool> stuck{false};  // makes Receive wait although bytes have arrived

  DevicePairing Pairing() {
    return {.new_meeting =
                [this] {
                  const std::lock_guard lock(mutex_);
                  return "meeting " + std::to_string(++last_meeting_);
                },
            .meet = [this](const std::string& meeting, bool gives,
                           std::function<bool()> given_up) { return Meet(meeting, gives, std::move(given_up)); }};
  }

 private:
  struct Wire {
    std::mutex mutex;
    std::deque<std::vector<std::byte>> sent;
    int ends = 0;
    bool broken = false;
  };

  class Pair final : public DevicePair {
   public:
    Pair(MemoryPairs& pairs, std::shared_ptr<Wire> wire, std::function<bool()> given_up)
        : pairs_(pairs), wire_(std::move(wire)), given_up_(std::move(given_up)) {}
    ~Pair() override {
      const std::lock_guard lock(wire_->mutex);
      wire_->broken = true;
    }
    void Send(const void* data, int64_t bytes, void*) override {
      const auto* begin = static_cast<const std::byte*>(data);
      const std::lock_guard lock(wire_->mutex);
      wire_->sent.emplace_back(begin, begin + bytes);
    }
    void Receive(void* data, int64_t bytes, void*) override {
      std::vector<std::byte> got;
      while (!TakeNext(got)) {
        Check();
        if (given_up_()) return;  // a device, too, would return after queueing the work; nothing has arrived
        std::this_thread::yield();
      }
      if (static_cast<int64_t>(got.size()) != bytes) Fail("{} bytes came, not {}", got.size(), bytes);
      std::ranges::copy(got, static_cast<std::byte*>(data));
    }
    void Check() override {
      const std::lock_guard lock(wire_->mutex);
      if (wire_->broken && wire_->sent.empty()) Fail("the other end is gone");
    }

   private:
    bool TakeNext(std::vector<std::byte>& got) {
      const std::lock_guard lock(wire_->mutex);
      if (wire_->sent.empty() || pairs_.stuck) return false;
      got = std::move(wire_->sent.front());
      wire_->sent.pop_front();
      return true;
    }

    MemoryPairs& pairs_;
    std::shared_ptr<Wire> wire_;
    std::function<bool()> given_up_;
  };

  std::unique_ptr<DevicePair> Meet(const std::string& meeting, bool, std::function<bool()> given_up) {
    std::shared_ptr<Wire> wire;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<Wire>& at = wires_[meeting];
      if (at == nullptr) at = std::make_shared<Wire>();
      wire = at;
    }
    const auto both = [&] {
      const std::lock_guard lock(wire->mutex);
      return wire->ends == 2;
    };
    {
      const std::lock_guard lock(wire->mutex);
      if (++wire->ends > 2) Fail("{}: a third end", meeting);
    }
    while (!both()) {
      if (given_up()) Fail("nobody came");
      std::this_thread::yield();
    }
    ++met;
    return std::make_unique<Pair>(*this, std::move(wire), std::move(given_up));
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Wire>> wires_;
  int last_meeting_ = 0;
};

}  // namespace quire::test
