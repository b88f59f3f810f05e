#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/kv_disk/stored_pins.h"

namespace quire {

/// The pins (prompts whose blocks stay cached) of one space (BlockSeal), in memory and in their files. Only the
/// constructor and the destructor wait for the disk; a thread writes changed pins. A pin that the disk refuses is
/// logged, and is lost when the process ends. Any thread may call its methods.
class KeptPins {
 public:
  /// Reads the files of pins that have not expired. The folder and the seal must outlive this object.
  KeptPins(KvFolder& folder, const BlockSeal& seal);
  ~KeptPins();
  KeptPins(const KeptPins&) = delete;
  KeptPins& operator=(const KeptPins&) = delete;

  /// Returns the pins that have not expired, sorted by name.
  std::vector<StoredPin> all() const;
  /// Keeps the pin, and replaces an earlier pin of its name. Returns false when there are already StoredPins::kMost
  /// other pins.
  bool Keep(StoredPin pin);
  void Drop(const std::string& name);

 private:
  void WriteAll();

  StoredPins files_;
  mutable std::mutex mutex_;  // guards the members below; no thread holds it while the disk works
  std::condition_variable wake_;
  std::map<std::string, StoredPin> pins_;
  std::vector<std::string> changed_;  // names whose files are out of date
  bool stopping_ = false;
  std::thread writer_;  // starts with the first change
};

}  // namespace quire
