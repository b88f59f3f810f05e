#include "coordinator/api/requests/told_once.h"

#include <spdlog/spdlog.h>

#include <mutex>
#include <set>

namespace quire {

void TellOnce(const std::string& key, const std::string& words) {
  constexpr size_t kMostKeys = 256;
  static std::mutex mutex;
  static std::set<std::string> told;
  {
    const std::lock_guard lock(mutex);
    if (told.size() >= kMostKeys || !told.insert(key).second) return;
  }
  spdlog::info("{}", words);
}

void TellLeftOut(const std::string& what) { TellOnce(what, "left out of what the model sees: " + what); }

}  // namespace quire
