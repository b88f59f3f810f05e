#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace quire {

/// The bytes in a BatchStore's directory (files, records, results and unfinished uploads), in all and of each client.
/// Any thread may call it.
class StoreUsage {
 public:
  /// Counts bytes that were added to the directory; a negative number counts removed bytes.
  void Add(const std::string& client, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    in_all_ += bytes;
    const auto entry = of_client_.try_emplace(client, 0).first;
    entry->second += bytes;
    if (entry->second == 0) of_client_.erase(entry);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    in_all_ = 0;
    of_client_.clear();
  }
  int64_t in_all() const {
    const std::lock_guard lock(mutex_);
    return in_all_;
  }
  int64_t Of(const std::string& client) const {
    const std::lock_guard lock(mutex_);
    const auto found = of_client_.find(client);
    return found == of_client_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;  // guards all members below
  int64_t in_all_ = 0;
  std::map<std::string, int64_t> of_client_;  // bytes of each client, if it has any in the directory
};

}  // namespace quire
