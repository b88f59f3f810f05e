#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "coordinator/journal/record_sink.h"

namespace quire::test {

/// A disk that can block or refuse writes for a while. It passes accepted records on to the sink behind it, if there is
/// one.
class GatedSink : public RecordSink {
 public:
  explicit GatedSink(std::unique_ptr<RecordSink> next = nullptr) : next_(std::move(next)) {}

  /// Makes calls wait until Open.
  void Close() {
    Set([this] { closed_ = true; });
  }
  void Open() {
    Set([this] { closed_ = false; });
  }
  /// Makes records and new segments fail with the message `words`. An empty message lets records and segments succeed
  /// again, from the next segment on.
  void Refuse(const std::string& words) {
    Set([this, &words] { refusal_ = words; });
  }

  void Append(uint8_t type, std::span<const std::byte> payload) override {
    Pass();
    if (error_.empty()) error_ = Refusal();
    if (error_.empty() && next_ != nullptr) next_->Append(type, payload);
    if (error_.empty()) ++num_records_;
  }
  void StartSegment() override {
    Pass();
    error_ = Refusal();
    if (error_.empty() && next_ != nullptr) next_->StartSegment();
  }
  void Flush() override {
    Pass();
    if (error_.empty() && next_ != nullptr) next_->Flush();
  }
  const std::string& error() const override { return error_; }

  int num_records() const {
    const std::lock_guard lock(mutex_);
    return num_records_;
  }

 private:
  template <class Change>
  void Set(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !closed_; });
  }
  std::string Refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

  std::unique_ptr<RecordSink> next_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int num_records_ = 0;
  std::string refusal_, error_;
};

}  // namespace quire::test
